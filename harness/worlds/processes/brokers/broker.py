"""One real broker: its server.properties, its process, and what it says of itself in its log."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from harness.faults import Replication
from harness.worlds.processes.brokers.wires import BROKERS_PORT, CLIENTS_PORT, ORDERS_PORT, Wires, name_of
from harness.worlds.processes.places import Places
from harness.worlds.processes.server import Server

POSITIONS_PARTITIONS: Final = 2
SESSION_MS_MIN: Final = 2_000
LAG_MS_MIN: Final = 1_500
"""As for servers: a machine that has much else to do must not look like a broker that is gone."""


class Broker(Server):
    """`sid` is its number."""

    program = "harness.worlds.processes.brokers.machine"

    def __init__(self, number: int, folder: Path, places: Places, wires: Wires, spoke: Callable[..., None]) -> None:
        super().__init__(number, folder, places, spoke)
        self.config = folder / "server.properties"
        self.opened = False
        """It answers clients."""
        self._wires = wires

    def prepare(self, session_ms: int, replication: Replication, mutant: str | None) -> None:
        """Everything that it needs to be started for the first time."""
        self.founded = True
        self.data.mkdir()
        self.config.write_text(self._properties(session_ms, replication))
        under = {
            "names": self._wires.names(self.sid),
            "lever": str(self.folder / "lever"),
            "kept": str(self.folder / "kept"),
            "mutant": mutant,
        }
        (self.folder / "under.json").write_text(json.dumps(under))

    def _properties(self, session_ms: int, replication: Replication) -> str:
        own, name = self._wires.own(self.sid), name_of(self.sid)
        factor = min(3, len(self._wires.brokers))
        lines = {
            "broker.id": self.sid,
            "listeners": f"CLIENTS://{own}:{CLIENTS_PORT},BROKERS://{own}:{BROKERS_PORT},CONTROLLER://{own}:{ORDERS_PORT}",
            "advertised.listeners": (
                f"CLIENTS://{self._wires.for_clients(self.sid)}:{CLIENTS_PORT},BROKERS://{name}:{BROKERS_PORT},"
                f"CONTROLLER://{name}:{ORDERS_PORT}"
            ),
            "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "BROKERS",
            "log.dirs": self.data,
            "zookeeper.connect": self._wires.store(self.sid),
            "zookeeper.session.timeout.ms": session_ms,
            "min.insync.replicas": replication.in_sync,
            "replica.lag.time.max.ms": max(LAG_MS_MIN, replication.lag_ms),
            "replica.fetch.wait.max.ms": 200,
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": POSITIONS_PARTITIONS,
            "offsets.topic.replication.factor": factor,
            "group.initial.rebalance.delay.ms": 0,
            "leader.imbalance.check.interval.seconds": 2,
            "controlled.shutdown.retry.backoff.ms": 500,
        }
        return "".join(f"{key}={value}\n" for key, value in lines.items())

    def wanted(self) -> int:
        self.opened = False
        return super().wanted()

    def _heard(self, line: str) -> None:
        self.last_lines = [*self.last_lines[-11:], line]
        if "Traceback (most recent call last)" in line:
            self.tracebacks.append(" | ".join(self.last_lines[-2:]))
        if " serves " in line and self.up:
            self.opened = True
            self._spoke(self, {"event": "broker serves"})

    def lose_disk(self) -> None:
        """While it is down. What was there is kept elsewhere: it may explain something."""
        kept = self.folder / "kept" / f"lost-{self.starts}"
        kept.parent.mkdir(exist_ok=True)
        shutil.move(self.data, kept)
        self.data.mkdir()

    @property
    def fails(self) -> bool:
        """Something is still to fail on its disk."""
        return self.lever.read().failure != 0

    def files(self) -> list[Path]:
        return sorted(path for path in self.data.rglob("*") if path.is_file())

    def state(self) -> str:
        how = "down" if not self.up else "paused" if self.paused else "open" if self.opened else "starting"
        return f"broker {self.sid} {how}"
