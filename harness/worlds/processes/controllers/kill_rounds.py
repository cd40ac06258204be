"""Rounds of `kill -9` of the controller while it reassigns replicas, deletes topics or takes over, each with a check.

Three servers of the store and three brokers without data run in processes. After each kill the broker is started again.
Before the next kill the cluster must settle: every partition has a live leader in the ISR, all its replicas are at the
requested brokers and in sync, no request is unfinished, and no epoch has decreased. A reassignment to a broker that was
down before it began may be refused, if a controller reports that.

In some rounds the broker stays down until the other brokers have settled: see `settled`.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

import trio
from attrs import define, field

import zab
from harness.faults import Script
from harness.worlds.processes.addresses import CLIENT_PORT, Addresses
from harness.worlds.processes.cluster import END_S, Options
from harness.worlds.processes.controllers.settled import IDS, Expected, Unsettled, check, controller_of
from harness.worlds.processes.kill_rounds import played
from harness.worlds.processes.run import World
from harness.worlds.processes.server import Notify, ServerProcess
from kraft_controller.core.names import BrokerId, TopicId, TopicPartition
from kraft_controller.core.state import Assignment
from kraft_controller.wire import znodes

STAYS_AWAY: Final = "reassignment, and stays away"
DEATHS: Final = ("reassignment", "deletion", "failover", STAYS_AWAY)
PARTITIONS: Final = 4
TOPICS: Final = 3
WITHIN_S: Final = 120.0
KILL_WITHIN_S: Final = 0.12
"""The maximum time between a request and the kill of the controller."""
DOWN_S: Final = 0.3
BROKERS: Final = 100
"""The base of the addresses of brokers."""


@define
class Figures:
    wanted: Expected = field(factory=Expected)
    settled_s: dict[str, list[float]] = field(factory=lambda: {kind: [] for kind in DEATHS})
    """The seconds from each kill until the cluster had settled, by the kind of round."""
    kills: Counter[str] = field(factory=Counter)
    wrong: str = ""


class BrokerWithoutData(ServerProcess):
    kind = "broker"

    def __init__(self, ident: int, folder: Path, addresses: Addresses, notify: Notify) -> None:
        super().__init__(ident, folder, "arguments", addresses, notify)

    def prepare(self, store: str) -> None:
        self._prepare("broker-without-data", f"{self.sid} {store} {self.folder}", {}, None)

    def _forget(self) -> None:
        """Do nothing: no state is derived from its log."""

    def _read(self, line: str) -> None:
        if line.startswith("Traceback"):
            self.tracebacks.append(line)

    def state(self) -> str:
        return f"broker {self.sid} {'up' if self.up else 'down'}"


class KillWorld(World):
    def __init__(
        self, rounds: int, seed: int, folder: Path, addresses: Addresses, options: Options, tell: Callable[[str], None]
    ) -> None:
        super().__init__(Script(seed, machine="store"), folder, addresses, options)
        self.figures = Figures()
        self.brokers = {
            ident: BrokerWithoutData(ident, folder / f"broker{ident}", addresses, self._notified) for ident in IDS
        }
        self._rounds = rounds
        self._random = Random(seed)
        self._tell = tell
        self._wanted = self.figures.wanted
        self._hosts = ",".join(f"{addresses.own(sid)}:{CLIENT_PORT}" for sid in self.sids)
        self._session: zab.Session

    def processes(self) -> list[ServerProcess]:
        return [*super().processes(), *self.brokers.values()]

    def log(self, ident: int) -> str:
        return (self.brokers[ident].folder / "log").read_text(errors="replace")

    async def _begin(self) -> None:
        await super()._begin()
        for broker in self.brokers.values():
            broker.prepare(self._hosts)
            self.revive(broker)

    async def _play(self) -> None:
        figures, wanted = self.figures, self._wanted
        async with zab.connect(self._hosts, timeout_ms=30_000) as self._session:
            await self._until_settled()
            for number in range(self._rounds):
                kind = DEATHS[number % len(DEATHS)]
                while len({where.topic for where in wanted.replicas}) < TOPICS:
                    await self._create()
                    await self._until_settled()
                which = f"round {number + 1} of {self._rounds}, {kind}"
                try:
                    took = await self._round(kind)
                except Unsettled as missing:
                    figures.wrong = f"{which}: {missing}"
                    return
                if took is not None:
                    figures.settled_s[kind].append(took)
                news = "there was no controller" if took is None else f"settled after {took:.1f} s"
                counts = f"{wanted.refused} moves refused, {wanted.stayed} unfinished"
                self._tell(f"{which}: {news} (so far {sum(figures.kills.values())} kills, {counts})")

    async def _stop(self) -> None:
        await self.end_all(list(self.brokers.values()), END_S)
        await super()._stop()

    # -- one round -------------------------------------------------------------------------------------

    async def _round(self, kind: str) -> float | None:
        """Run a round; return the seconds from the kill until the cluster had settled, or None without a kill."""
        self._wanted.begin({ident: len(self.log(ident)) for ident in IDS})
        await self._request(kind)
        # If the broker stays down, wait longer, so that some moves have begun.
        await trio.sleep(self._random.random() * KILL_WITHIN_S * (3 if kind == STAYS_AWAY else 1))
        victim = await controller_of(self._session)
        if victim is None:
            await self._until_settled()
            return None
        began = time.monotonic()
        self._kill(victim)
        self.figures.kills[kind] += 1
        if kind == "failover":
            await self._kill_the_next(victim)
        if kind == STAYS_AWAY:
            await self._until_settled(away=victim)
        await trio.sleep(self._random.random() * DOWN_S)
        for broker in self.brokers.values():
            self.revive(broker)
        await self._until_settled()
        return time.monotonic() - began

    def _kill(self, ident: int) -> None:
        self.brokers[ident].kill()
        self._wanted.dead.add(ident)

    async def _kill_the_next(self, before: int) -> None:
        """Kill the next controller while it takes over."""
        with trio.move_on_after(WITHIN_S):
            while (found := await controller_of(self._session)) in (None, before):  # noqa: ASYNC110 - it polls a server
                await trio.sleep(0.005)
            await trio.sleep(self._random.random() * KILL_WITHIN_S)
            if self.brokers[found].up:
                self._kill(found)

    async def _create(self) -> None:
        wanted, random = self._wanted, self._random
        wanted.made += 1
        name = f"t{wanted.made}"
        held = {}
        for number in range(PARTITIONS):
            first, factor = random.randrange(len(IDS)), random.randint(1, len(IDS))
            replicas = tuple(BrokerId(IDS[(first + place) % len(IDS)]) for place in range(factor))
            held[number] = Assignment(replicas)
            wanted.replicas[TopicPartition(name, number)] = replicas
        await self._session.create(znodes.topic_path(name), znodes.topic(TopicId(f"T{wanted.made:021}"), held))

    async def _request(self, kind: str) -> None:
        wanted, random = self._wanted, self._random
        if kind.startswith("reassignment"):
            moves: dict[TopicPartition, tuple[BrokerId, ...]] = {}
            for where, replicas in wanted.replicas.items():
                if random.random() < 0.7:
                    shift = random.randint(1, len(IDS) - 1)
                    moves[where] = tuple(BrokerId((broker - 1 + shift) % len(IDS) + 1) for broker in replicas)
            if moves:
                await self._session.create(znodes.REASSIGN, znodes.reassignment(moves))
                wanted.before = {where: wanted.replicas[where] for where in moves}
                wanted.replicas.update(moves)
        elif kind == "deletion":
            name = random.choice(sorted({where.topic for where in wanted.replicas}))
            await self._session.create(f"{znodes.DELETE_TOPICS}/{name}")
            wanted.replicas = {where: to for where, to in wanted.replicas.items() if where.topic != name}

    async def _until_settled(self, away: int | None = None) -> None:
        until = time.monotonic() + WITHIN_S
        while True:
            try:
                await self._session.sync()
                await check(self._session, self._wanted, self.log, away)
                return
            except Unsettled as missing:
                if time.monotonic() > until:
                    logs = "".join(
                        f"broker {ident}:\n{self._wanted.log_of_round(ident, self.log)[-3_000:]}" for ident in IDS
                    )
                    raise Unsettled(f"{missing}\n{logs}") from None
            except zab.NoNode:
                pass  # the node was deleted meanwhile
            await trio.sleep(0.05)


def run_rounds(rounds: int, seed: int, folder: Path, tell: Callable[[str], None]) -> Figures:
    """Run the rounds. The folder is removed if they find no violation."""
    world, outcome = played(folder, lambda there, own: KillWorld(rounds, seed, there, own, Options(), tell))
    figures = world.figures
    if outcome.invariant is not None and not figures.wrong:
        figures.wrong = f"{outcome.invariant}: {outcome.what}"
    if not figures.wrong:
        shutil.rmtree(folder)
    return figures
