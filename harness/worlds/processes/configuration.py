"""The `zoo.cfg` of a real server, derived from the knobs of a script."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from attrs import frozen

from harness.faults import Script
from harness.script.checks import grouped
from harness.worlds.processes.addresses import ADMIN_PORT, CLIENT_PORT, Addresses
from zab.core.ensemble import Server as Member
from zab.store.acl import digest_id

SUPER: Final = "super:secret"
TICK_MS_MIN: Final = 200
"""The minimum of a tick: a busy machine may need longer than a script's tick to schedule three interpreters."""
INIT_LIMIT_MIN: Final = 10
SYNC_LIMIT_MIN: Final = 5


_AMONG_OURS: Final = {"reconfigEnabled": "true", "quorum.admitNonMembers": "true"}
_AMONG_ZOOKEEPER: Final = {
    "peerProtocol": "zookeeper", "admin.enableServer": "false", "skipACL": "no", "preAllocSize": 64,
}  # fmt: skip
"""Settings of all servers of a mixed ensemble. ZooKeeper allocates log files of 64 KiB, not 64 MiB."""


@frozen
class Pace:
    """The timing of real servers: the script's, but not shorter than a real machine needs."""

    tick_ms: int
    init_limit: int
    sync_limit: int
    notification_ms_min: int
    notification_ms_max: int

    @classmethod
    def of(cls, script: Script, scale: float) -> Pace:
        knobs = script.knobs
        return cls(
            max(TICK_MS_MIN, round(knobs.tick_ms * scale)),
            max(INIT_LIMIT_MIN, knobs.init_limit),
            max(SYNC_LIMIT_MIN, knobs.sync_limit),
            max(20, round(knobs.notification_ms_min * scale)),
            max(200, round(knobs.notification_ms_max * scale)),
        )

    @property
    def settled_ms(self) -> int:
        """Return the time in which connected servers elect a leader and synchronize."""
        return 4 * self.tick_ms * (self.init_limit + self.sync_limit) + 4 * self.notification_ms_max + 20 * self.tick_ms


def configuration(
    data: Path, addresses: Addresses, sid: int, members: Sequence[Member], script: Script, pace: Pace, *, founds: bool
) -> str:
    knobs = script.knobs
    lines = {
        "tickTime": pace.tick_ms,
        "initLimit": pace.init_limit,
        "syncLimit": pace.sync_limit,
        "fastleader.minNotificationInterval": pace.notification_ms_min,
        "fastleader.maxNotificationInterval": pace.notification_ms_max,
        "observer.election.DelayMs": pace.notification_ms_min,
        "minSessionTimeout": 2 * pace.tick_ms,
        "maxSessionTimeout": 600_000,
        "maxClientCnxns": 0,
        "dataDir": data,
        "clientPort": CLIENT_PORT,
        "clientPortAddress": addresses.own(sid),
        "admin.serverAddress": addresses.own(sid),
        "admin.serverPort": ADMIN_PORT,
        "admin.rateLimiterIntervalInMS": 0,
        "snapCount": max(2, knobs.snapshot_every),
        "txnLogSizeLimitInKb": max(1, knobs.segment_bytes >> 10),
        "extendedTypesEnabled": "true",
        "enforceQuota": "true",
        "znode.container.checkIntervalMs": 1_000,
        "standaloneEnabled": "false",
        **(_AMONG_ZOOKEEPER if knobs.zookeeper_servers else _AMONG_OURS),
        "db.autocreate": "true" if founds else "false",
        "DigestAuthenticationProvider.superDigest": digest_id(SUPER.encode()),
        "4lw.commands.whitelist": "*",
    }
    groups, weights = grouped(script)
    text = [f"{key}={value}" for key, value in lines.items()]
    text += [each.text() for each in members]
    text += [f"group.{group.id}=" + ":".join(map(str, group.members)) for group in groups]
    text += [f"weight.{voter}={weight}" for voter, weight in weights.items()]
    return "".join(f"{line}\n" for line in text)
