"""A script written as text is played in the cores world, and looked at while it goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from harness.outcome import Outcome
from harness.scripts import loads
from harness.trace import Act
from harness.worlds.cores.world import World
from zab.core.messages import LinkDown, LinkUp, Reachable
from zab.core.ready import Recovered

CALM = {"delay_us_max": 1_000, "fsync_us_max": 1_000, "break_ms_max": 50}
"""Where a test does not say something else."""
WRITES = "\n".join(f"at {at} ms write" for at in range(300, 2_000, 20))


class Played:
    """What happened. Times are in milliseconds of virtual time."""

    def __init__(self, text: str, looks: Mapping[int, Callable[[World], Any]]) -> None:
        calm = " ".join(f"{name} {value}" for name, value in CALM.items() if name not in text)
        script = loads(f"seed 1\ntiming {calm}\n{text}")
        self.world = World(script, trace=True)
        self.seen: dict[int, Any] = {}
        for at, look in looks.items():
            self.world.push(at * 1_000, self._look, at, look)
        self.outcome: Outcome = self.world.run()
        assert self.outcome.valid, f"{self.outcome.invariant}: {self.outcome.what}"
        assert self.outcome.trace is not None
        self.acts = self.outcome.trace.acts
        self.counts = dict(self.outcome.counts)

    def _look(self, at: int, look: Callable[[World], Any]) -> None:
        self.seen[at] = look(self.world)

    def did(self, verb: str, server: int | None = None, begin: float = 0, end: float = 1e9) -> list[Act]:
        return [
            act
            for act in self.acts
            if act[2] == verb and server in (None, act[1]) and begin * 1_000 <= act[0] < end * 1_000
        ]

    def heard(self, server: int, source: int, begin: float, end: float) -> list[Any]:
        """Words, and nothing about links."""
        return [
            act[4]
            for act in self.did("hears", server, begin, end)
            if act[3] == source and not isinstance(act[4], LinkUp | LinkDown | Reachable)
        ]

    def hit(self, kind: str) -> int:
        return self.counts.get(f"hit {kind}", 0)

    def started(self, server: int) -> list[tuple[float, Recovered]]:
        """When, and with what: the first start is that of the beginning."""
        return [(at / 1_000, what) for at, _, _, _, what in self.did("starts", server) if isinstance(what, Recovered)]


def last(found: Recovered) -> int:
    return found.batches[-1].last if found.batches else found.snapshot


def played(text: str, looks: Mapping[int, Callable[[World], Any]] | None = None, *, writes: bool = True) -> Played:
    return Played(text + (WRITES if writes else ""), looks or {})


def leader(world: World) -> int:
    found = world.leader()
    return 0 if found is None else found.id
