"""From a script to the `zoo.cfg` of a real server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from attrs import frozen

from harness.faults import Script
from harness.script.checks import grouped
from harness.worlds.processes.places import ADMIN_PORT, CLIENT_PORT, Places
from zab.core.ensemble import Server as Member
from zab.store.acl import digest_id

SUPER: Final = "super:secret"
TICK_MS_MIN: Final = 200
"""A tick of a script may be shorter than what a busy machine needs to run three interpreters for a turn."""
INIT_LIMIT_MIN: Final = 10
SYNC_LIMIT_MIN: Final = 5


@frozen
class Pace:
    """The settings of servers that are real: the script's, but for what a real machine needs."""

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
        """Within which servers that all run and hear each other find a leader and are brought up to date."""
        return 4 * self.tick_ms * (self.init_limit + self.sync_limit) + 4 * self.notification_ms_max + 20 * self.tick_ms


def configuration(
    data: Path, places: Places, sid: int, members: Sequence[Member], script: Script, pace: Pace, *, founds: bool
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
        "clientPortAddress": places.own(sid),
        "admin.serverAddress": places.own(sid),
        "admin.serverPort": ADMIN_PORT,
        "admin.rateLimiterIntervalInMS": 0,
        "snapCount": max(2, knobs.snapshot_every),
        "txnLogSizeLimitInKb": max(1, knobs.segment_bytes >> 10),
        "extendedTypesEnabled": "true",
        "enforceQuota": "true",
        "znode.container.checkIntervalMs": 1_000,
        "standaloneEnabled": "false",
        "reconfigEnabled": "true",
        "quorum.admitNonMembers": "true",
        "db.autocreate": "true" if founds else "false",
        "DigestAuthenticationProvider.superDigest": digest_id(SUPER.encode()),
        "4lw.commands.whitelist": "*",
    }
    groups, weights = grouped(script)
    told = [f"{key}={value}" for key, value in lines.items()]
    told += [each.text() for each in members]
    told += [f"group.{group.id}=" + ":".join(map(str, group.members)) for group in groups]
    told += [f"weight.{voter}={weight}" for voter, weight in weights.items()]
    return "".join(f"{line}\n" for line in told)
