"""One real broker: its server.properties, its process, and its log."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from harness.faults import Replication
from harness.worlds.processes.addresses import Addresses
from harness.worlds.processes.brokers.links import BROKERS_PORT, CLIENTS_PORT, CONTROL_PORT, Links, name_of
from harness.worlds.processes.server import Notify, ServerProcess

OFFSETS_PARTITIONS: Final = 2
SESSION_MS_MIN: Final = 2_000
LAG_MS_MIN: Final = 1_500
"""The minima of timeouts: a live broker on a busy machine must not look dead."""


class Broker(ServerProcess):
    kind = "broker"

    def __init__(self, number: int, folder: Path, addresses: Addresses, links: Links, notify: Notify) -> None:
        super().__init__(number, folder, "server.properties", addresses, notify)
        self.serves = False
        """True after the broker has logged that it serves, until its process ends."""
        self._links = links

    def prepare(self, session_ms: int, replication: Replication, mutant: str | None) -> None:
        self._prepare("zab-broker", self._properties(session_ms, replication), self._links.names(self.sid), mutant)

    def _properties(self, session_ms: int, replication: Replication) -> str:
        own, name, for_clients = self._links.own(self.sid), name_of(self.sid), self._links.for_clients(self.sid)
        ports = {"CLIENTS": CLIENTS_PORT, "BROKERS": BROKERS_PORT, "CONTROLLER": CONTROL_PORT}
        hosts = {"CLIENTS": for_clients, "BROKERS": name, "CONTROLLER": name}
        lines = {
            "broker.id": self.sid,
            "listeners": ",".join(f"{each}://{own}:{port}" for each, port in ports.items()),
            "advertised.listeners": ",".join(f"{each}://{hosts[each]}:{port}" for each, port in ports.items()),
            "listener.security.protocol.map": ",".join(f"{each}:PLAINTEXT" for each in ports),
            "inter.broker.listener.name": "BROKERS",
            "log.dirs": self.data,
            "zookeeper.connect": self._links.store(self.sid),
            "zookeeper.session.timeout.ms": session_ms,
            "min.insync.replicas": replication.in_sync,
            "replica.lag.time.max.ms": max(LAG_MS_MIN, replication.lag_ms),
            "replica.fetch.wait.max.ms": 200,
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": OFFSETS_PARTITIONS,
            "offsets.topic.replication.factor": min(3, len(self._links.brokers)),
            "group.initial.rebalance.delay.ms": 0,
            "leader.imbalance.check.interval.seconds": 2,
            "controlled.shutdown.retry.backoff.ms": 500,
        }
        return "".join(f"{key}={value}\n" for key, value in lines.items())

    def _forget(self) -> None:
        self.serves = False

    def _read(self, line: str) -> None:
        if "Traceback (most recent call last)" in line:
            self.tracebacks.append(" | ".join(self.last_lines[-2:]))
        if " serves " in line and self.up:
            self.serves = True
            self._notify(self, {"event": "broker serves"})

    @property
    def disk_fails(self) -> bool:
        """Return whether a later call on its disk is to fail."""
        return self.fault_control.read().failure != 0

    def state(self) -> str:
        how = "down" if not self.up else "paused" if self.paused else "serving" if self.serves else "starting"
        return f"broker {self.sid} {how}"
