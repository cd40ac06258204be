"""Rounds of `kill -9` of the leader or a follower of real servers under load, with a check of their logs at the end.

Writers at every server set a node of their own to one value after another. After the last round the servers heal, are
stopped, and their logs are compared as after any run. Furthermore, in the committed history

* every acknowledged value is at the zxid that its acknowledgement named;
* no value occurs twice, and the values of one writer are in the order in which it wrote them;
* every other value was in flight when its server was killed, at most one for each writer and kill.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Final, TypeVar

import trio
from attrs import define, field, frozen

from harness.exceptions import interrupts_bare
from harness.faults import Script
from harness.history import Request
from harness.outcome import Outcome
from harness.worlds.processes.addresses import Addresses, Loopback
from harness.worlds.processes.cluster import Options
from harness.worlds.processes.run import LIVENESS, World
from harness.worlds.processes.verdict import outcome_of
from zab.core.errors import OutcomeUnknown

WRITERS: Final = 4
"""The number of writers at each server."""
PAUSE_S: Final = 0.002
"""The pause between the writes of one writer. It limits the number of values, which are all kept to the end."""
AGAIN_S: Final = 60.0
"""The time limit for all survivors to acknowledge writes again."""
NODE: Final = "/writer-"


@frozen
class Rounds:
    rounds: int
    seed: int
    victims: tuple[str, ...] = ("leader",)
    load_s: tuple[float, float] = (0.1, 0.8)
    down_s: tuple[float, float] = (0.0, 0.5)


@define
class Figures:
    wrong: list[str] = field(factory=list)
    places: dict[str, int] = field(factory=dict)
    """The zxid of each acknowledged value."""
    unknown: int = 0
    errors: set[str] = field(factory=set)
    values: int = 0
    """The number of values in the committed history."""
    kills: Counter[str] = field(factory=Counter)
    first_s: list[float] = field(factory=list)
    """The seconds from each kill to the first acknowledgement of a later write."""
    gap_s: list[float] = field(factory=list)
    """The longest time around each kill without an acknowledgement at a survivor, in seconds."""
    seconds: float = 0.0


def judge(history: Sequence[tuple[int, str]], places: Mapping[str, int], kills: int) -> list[str]:
    """Return the violations in the history of zxids and values `WRITER.NUMBER`, at most a handful of each kind."""
    wrong: list[str] = []

    def complain(kind: str, found: Iterable[str]) -> None:
        if listed := list(found):
            wrong.append(f"{len(listed)} {kind}: {', '.join(listed[:5])}")

    counts = Counter(value for _, value in history)
    at = {value: zxid for zxid, value in history}
    complain("values twice in the history", (value for value, count in counts.items() if count > 1))
    complain("lost acknowledged values", (value for value in places if value not in counts))
    complain("values not at the acknowledged zxid", (v for v, zxid in places.items() if at.get(v, zxid) != zxid))
    newest: Counter[str] = Counter()
    disordered = []
    for _, value in history:
        writer, _, number = value.rpartition(".")
        if int(number) <= newest[writer]:
            disordered.append(value)
        newest[writer] = max(newest[writer], int(number))
    complain("values out of order", disordered)
    others = Counter(value.rpartition(".")[0] for value in counts if value not in places)
    complain("writers with more values in flight than kills", (each for each, n in others.items() if n > kills))
    return wrong


class KillWorld(World):
    def __init__(self, rounds: Rounds, folder: Path, addresses: Addresses, options: Options) -> None:
        super().__init__(Script(rounds.seed, machine="store"), folder, addresses, options)
        self.figures = Figures()
        self._rounds = rounds
        self._random = Random(rounds.seed)
        self._stopping = False
        self._writing = 0
        self._acknowledged: dict[int, list[tuple[float, float]]] = {sid: [] for sid in self.sids}
        """The begin and the end of each acknowledged write since the last kill, by server."""
        self._progress = trio.Event()

    def _client_numbers(self) -> list[int]:
        return sorted({*super()._client_numbers(), *(self._number(sid, each) for sid, each in self._writers())})

    def _writers(self) -> list[tuple[int, int]]:
        return [(sid, each) for sid in self.sids for each in range(WRITERS)]

    @staticmethod
    def _number(sid: int, writer: int) -> int:
        return 100 * sid + writer

    async def _play(self) -> None:
        async with trio.open_nursery() as self._until_healed:
            for writer in self._writers():
                self.spawn_until_healed(self._write, *writer)
            for number in range(self._rounds.rounds):
                await self._round(number + 1)
            self._stopping = True
            with trio.move_on_after(AGAIN_S):
                while self._writing:
                    await self._progressed()
            if self._writing:
                self.violated(LIVENESS, f"{self._writing} writers wait for a reply {AGAIN_S:g} s after the last round")
            self._until_healed.cancel_scope.cancel()

    async def _write(self, sid: int, writer: int) -> None:
        number, figures = self._number(sid, writer), self.figures
        path = f"{NODE}{number}"
        await self.ask_until_answered(sid, Request("create", path, b""))
        self._writing += 1
        sequence = 0
        while not self._stopping:
            sequence += 1
            value, began = f"{number}.{sequence}", time.monotonic()
            found, error = await self.connected(number, sid).outcome(Request("set", path, value.encode()))
            if error is None:
                figures.places[value] = found.mzxid
                self._acknowledged[sid].append((began, time.monotonic()))
            elif isinstance(error, OutcomeUnknown):
                figures.unknown += 1
            else:
                figures.errors.add(repr(error)[:200])
            self._progress.set()
            await trio.sleep(PAUSE_S)
        self._writing -= 1
        self._progress.set()

    async def _progressed(self) -> None:
        self._progress = trio.Event()
        await self._progress.wait()

    async def _round(self, number: int) -> None:
        rounds, random, figures = self._rounds, self._random, self.figures
        await trio.sleep(random.uniform(*rounds.load_s))
        await self.all_serve([""])
        leader = self.leader()
        assert leader is not None
        victim = random.choice(rounds.victims)
        others = [sid for sid in self.servers if sid != leader.sid]
        server = leader if victim == "leader" else self.servers[random.choice(others)]
        survivors = [sid for sid in self.servers if sid != server.sid]
        killed_at = time.monotonic()
        server.kill()
        figures.kills[victim] += 1
        with trio.move_on_after(AGAIN_S) as patience:
            while not all(self._again(sid, killed_at) for sid in survivors):
                await self._progressed()
        if patience.cancelled_caught:
            self.violated(LIVENESS, f"a survivor acknowledges no write within {AGAIN_S:g} s after {server} was killed")
            await trio.lowlevel.checkpoint()
        figures.first_s.append(min(self._first(sid, killed_at) for sid in survivors))
        figures.gap_s.append(max(self._longest_gap(sid, killed_at) for sid in survivors))
        for each in self._acknowledged.values():
            each.clear()
        await server.wait_for_exit()
        await trio.sleep(random.uniform(*rounds.down_s))
        self.revive(server)
        await self.all_serve([""])
        self.options.tell(f"round {number}: {victim} {server.sid}, {figures.first_s[-1]:.3f} s")

    def _again(self, sid: int, since: float) -> bool:
        return bool(self._acknowledged[sid]) and self._acknowledged[sid][-1][0] >= since

    def _first(self, sid: int, since: float) -> float:
        return min(ended for began, ended in self._acknowledged[sid] if began >= since) - since

    def _longest_gap(self, sid: int, since: float) -> float:
        times = sorted(ended for _, ended in self._acknowledged[sid])
        times = [max((each for each in times if each <= since), default=since), *(t for t in times if t > since)]
        return max((later - earlier for earlier, later in pairwise(times)), default=0.0)


W = TypeVar("W", bound=World)


def played(folder: Path, make: Callable[[Path, Addresses], W]) -> tuple[W, Outcome]:
    """Run a world in a new folder, and judge the servers."""
    folder = folder.resolve()  # servers have working directories of their own
    folder.mkdir(parents=True)
    addresses = Loopback()
    try:
        world = make(folder, addresses)
        with interrupts_bare():
            trio.run(world.main)
    finally:
        addresses.close()
    return world, outcome_of(world, clients=False)


def run_rounds(rounds: Rounds, folder: Path, tell: Callable[[str], None] = lambda words: None) -> Figures:
    """Run the rounds. The folder is removed if they find no violation."""
    began = time.monotonic()
    world, outcome = played(folder, lambda there, own: KillWorld(rounds, there, own, Options(tell=tell)))
    figures = world.figures
    figures.seconds = time.monotonic() - began
    if outcome.invariant is not None:
        figures.wrong.append(f"{outcome.invariant}: {outcome.what}")
    assert outcome.history is not None
    history = [
        (change.zxid, change.data.decode())
        for change in outcome.history.changes
        if change.kind == "set" and change.path.startswith(NODE) and change.data
    ]
    figures.values = len(history)
    figures.wrong += judge(history, figures.places, sum(figures.kills.values()))
    if not figures.wrong:
        shutil.rmtree(folder)
    return figures
