"""A broker without data in a process of its own: registration, candidacy, connections, and replicas without records.

`python -m harness.worlds.processes.controllers.broker ID STORE FOLDER` prints a line of JSON for each event, with the
time of the monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import trio

import zab
from harness.worlds.controller.replicas import Replicas
from kraft_controller.core.broker_epoch import UNREGISTERED
from kraft_controller.core.command_handler import ControllerCommandHandler
from kraft_controller.core.commands import Command, Role
from kraft_controller.core.names import BrokerEpoch, BrokerId, LeaderEpoch, TopicPartition, Version
from kraft_controller.core.state import Broker, Endpoint
from kraft_controller.runtime.command_connections import CommandConnections
from kraft_controller.runtime.command_server import CommandServer
from kraft_controller.runtime.controller import Controller, ControllerEnvironment, Pace
from kraft_controller.runtime.registration import Registration, prepare
from kraft_controller.wire import znodes

ISR_CHECK_S: Final = 0.05
SESSION_MS: Final = 1_500


def log_event(event: str, **fields: object) -> None:
    sys.stdout.write(json.dumps({"at": time.monotonic(), "event": event, **fields}) + "\n")
    sys.stdout.flush()


class BrokerProcess:
    def __init__(self, ident: int, store: str, folder: Path) -> None:
        self.me = BrokerId(ident)
        self._store = store
        self._former = folder / f"sessions-{ident}"
        self.replicas = Replicas(self.me)
        self.registration: Registration | None = None
        self.controller: Controller | None = None

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            commands = CommandServer(ControllerCommandHandler(self._epoch, self._apply_command, me=self.me))
            [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
            port: int = listener.socket.getsockname()[1]
            nursery.start_soon(trio.serve_listeners, commands.serve, [listener])
            described = Broker(
                self.me, BrokerEpoch(0), (Endpoint("PLAINTEXT", "127.0.0.1", port),), {"PLAINTEXT": "PLAINTEXT"}
            )
            async with zab.connect(self._store, timeout_ms=SESSION_MS) as session:
                await prepare(session)
            known = self._former.read_text().split() if self._former.exists() else []
            self.registration = Registration(
                lambda: zab.connect(self._store, timeout_ms=SESSION_MS),
                described,
                lambda: time.time_ns() // 1_000_000,
                former=set(map(int, known)),
                remember=self._remember,
            )
            await self.registration.run(self._live)

    def _remember(self, session: int) -> None:
        with self._former.open("a") as file:
            file.write(f"{session}\n")

    def _epoch(self) -> BrokerEpoch:
        return UNREGISTERED if self.registration is None else self.registration.accepts_from

    def _apply_command(self, command: Command) -> Mapping[TopicPartition, int]:
        return self.replicas.apply_command(command)

    async def _live(self, session: zab.Session) -> None:
        links = CommandConnections(lambda event: None if self.controller is None else self.controller.note(event))
        environment = ControllerEnvironment(lambda: time.time_ns() // 1_000_000, os.urandom)
        controller = self.controller = Controller(session, self.me, links, environment, pace=Pace(balance_s=None))
        log_event("registered", broker=self.me, session=session.id)
        async with trio.open_nursery() as nursery:
            await nursery.start(links.run)
            nursery.start_soon(controller.run)
            nursery.start_soon(self._update_isrs, session)

    async def _update_isrs(self, session: zab.Session) -> None:
        """Write the ISRs of partitions led here. All live brokers count as fetching, as there is nothing to copy."""
        while True:
            await trio.sleep(ISR_CHECK_S)
            now_ms = int(trio.current_time() * 1_000)
            for where, isr in self.replicas.wanted_isrs(now_ms, self._fetches).items():
                role = self.replicas.roles.get(where)
                if role is not None:  # it may have been stopped during the previous write
                    await self._write(session, role, isr)

    def _fetches(self, follower: BrokerId, where: TopicPartition, epoch: LeaderEpoch) -> bool:
        return follower in self.replicas.live

    async def _write(self, session: zab.Session, role: Role, isr: tuple[BrokerId, ...]) -> None:
        path = znodes.state_path(role.where)
        wanted = self.replicas.with_isr(role, isr)
        try:
            await session.set(path, znodes.partition_state(wanted), version=wanted.version)
        except (zab.BadVersion, zab.NoNode):
            return  # the controller has written the state, and sends a command
        except zab.OutcomeUnknown:
            await session.sync(path)
        try:
            data, stat = await session.get(path)
        except zab.NoNode:
            return
        state = znodes.read_partition_state(role.where, data, Version(stat.version))
        self.replicas.state_written(role, state)
        note = znodes.partitions([role.where])
        await session.create(f"{znodes.ISR_CHANGES}/isr_change_", note, sequential=True)


def main() -> None:
    trio.run(BrokerProcess(int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])).run)


if __name__ == "__main__":
    main()
