"""The stack world with an embedder's machine in it: every request is numbered, and every result is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

from harness.checkers import ALL, Checker, Violation
from harness.embed.held import Call, agree, judge
from harness.embed.machine import Answer, TheirMachine, number_of, numbered
from harness.embed.model import Draw, Make, Model
from harness.embed.state import State, States
from harness.faults import Script, Write
from harness.outcome import Outcome
from harness.worlds.cores.workload import Workload
from harness.worlds.stack.machine import ToldMachine
from harness.worlds.stack.server import Life, Server
from harness.worlds.stack.world import WORLD, EveryWorkload, World
from zab.core.errors import LeadersLost, Refused
from zab.core.zxid import ServerId, Zxid
from zab.wire.relay_messages import TAG_BYTES

PROBES: Final = 20
"""So many requests when all is healed: what a snapshot lost is asked for, by servers that came back from one."""


class EmbedWorkload(EveryWorkload):
    """The embedder's requests, by chance."""

    def __init__(self, world: EmbedWorld, draw: Draw, seed: str) -> None:
        same: Any = world
        super().__init__(same)
        self._calls = world.calls
        self._now: Callable[[], int] = lambda: world.now
        self._draw = draw
        self._random = Random(f"{seed}/requests")

    def payload(self, number: int, server: ServerId, size: int) -> bytes:
        request = self._draw(self._random)
        self._calls[number] = Call(number, request, server, self._now())
        return numbered(number, request)


class EmbedLife(Life):
    """With a new machine of theirs in it."""

    def __init__(self, server: Server, world: EmbedWorld, make: Make) -> None:
        self._world, self._make = world, make
        super().__init__(server)

    def _machine(self) -> ToldMachine:
        machine = TheirMachine(self, self._world, self._make())
        self._world.machines[self.server.id] = machine
        return machine


class EmbedWorld(World):
    def __init__(
        self,
        script: Script,
        make: Make,
        model: Model,
        draw: Draw,
        state: State,
        *,
        trace: bool = False,
        checkers: Sequence[type[Checker]] = ALL,
    ) -> None:
        self.calls: dict[int, Call] = {}
        self._make = make
        self._model = model
        self._draw = draw
        self.states = States(state)
        self.machines: dict[ServerId, TheirMachine] = {}
        """The machine of each server's present life."""
        super().__init__(script, trace=trace, checkers=checkers)

    def make_workload(self) -> Workload:
        return EmbedWorkload(self, self._draw, str(self.script.seed))

    def life(self, server: Server) -> Life:
        return EmbedLife(server, self, self._make)

    def applied(self, server: ServerId, zxid: Zxid, number: int, txn: bytes, result: object) -> None:
        call = self.calls[number]
        if call.zxid is None:
            call.zxid, call.first, call.first_at = zxid, result, server
        else:
            agree(call, server, result)

    def told(self, server: Server, request: bytes, result: object, error: Exception | None) -> None:
        call = self.calls[number_of(request)]
        if isinstance(result, Answer):
            call.returned, call.result = self.now, result.result
            self.workload.told(self.as_core(server), result.zxid)
        elif isinstance(error, LeadersLost):
            call.returned, call.given_up = self.now, True
            self.workload.acknowledged += 1  # the library refused it, and the machine never saw it
        elif isinstance(error, Refused):
            call.returned, call.refused = self.now, str(error)
            self.workload.acknowledged += 1  # it has its answer

    def _heal(self, one: object, other: object) -> None:
        super()._heal(one, other)
        self.workload.write(Write(0, PROBES, 0))

    def outcome(self) -> Outcome:
        if self.violation is None:
            ghost = self.ghost
            numbers = [
                number_of(ghost.payload[zxid][TAG_BYTES:])
                for zxid, before in zip(ghost.canon[1:], ghost.canon, strict=False)
                if ghost.governing[zxid] is ghost.governing[before]
            ]
            try:
                for machine in self.machines.values():
                    machine.compare()
                judge([self.calls[number] for number in numbers], list(self.calls.values()), self._model)
            except Violation as violation:
                self.violation = violation
        return super().outcome()


def run(script: Script, make: Make, model: Model, draw: Draw, state: State) -> Outcome:
    return EmbedWorld(WORLD.playable(script).script, make, model, draw, state).run()
