"""`kill -9` of the controller while it moves replicas, deletes topics or takes over, and then a look at everything.

Three servers of the store and three brokers, all processes. After each kill the broker is started again, and before the
next one the following must come true: every partition is led by a live broker that is in sync, all of its replicas are
where they were asked to be and in sync, nothing is left of any request, and no epoch has gone back. A move that had not
begun when the broker died to which it leads may have been refused: if a controller has said so, and named that broker,
or one that lost its session meanwhile.

In some rounds the broker stays away until the others are done without it (`bench.controller.look`).
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Final

import trio

import zab
from bench.controller.look import IDS, NotThere, Wanted, controller_of, look
from bench.controller.processes import Brokers, brokers
from bench.report import Result, publish, spread
from bench.zookeeper.ensembles import ours
from kraft_controller.core.names import BrokerId, TopicId, TopicPartition
from kraft_controller.core.state import Assignment
from kraft_controller.wire import znodes

DEATHS: Final = ("reassignment", "deletion", "failover", "reassignment, and stays away")
PARTITIONS: Final = 4
WITHIN_S: Final = 120.0
STRIKES_S: Final = 0.12
"""At the latest so long after the request the controller is killed."""
DOWN_S: Final = 0.3


def run(rounds: int, seed: int, data: Path) -> bool:
    with ours(data / "store") as store, brokers(store.hosts, data / "brokers") as fakes:
        for ident in IDS:
            fakes.start(ident)
        return trio.run(_campaign, store.hosts, fakes, rounds, Random(seed))


async def _campaign(store: str, fakes: Brokers, rounds: int, random: Random) -> bool:
    wanted = Wanted()
    settled: dict[str, list[float]] = {kind: [] for kind in DEATHS}
    kills: Counter[str] = Counter()
    wrong = ""
    async with zab.connect(store, timeout_ms=30_000) as session:
        await _until_settled(session, wanted, fakes)
        for number in range(rounds):
            kind = DEATHS[number % len(DEATHS)]
            while len({where.topic for where in wanted.replicas}) < 3:
                await _create(session, wanted, random)
                await _until_settled(session, wanted, fakes)
            said = f"round {number + 1} of {rounds}, {kind}"
            try:
                took = await _round(session, wanted, fakes, kind, kills, random)
            except NotThere as missing:
                wrong = f"{said}: {missing}"
                break
            if took is not None:
                settled[kind].append(took)
            news = "nobody was the controller" if took is None else f"all as it should be after {took:.1f} s"
            counts = f"{wanted.refused} moves refused, {wanted.stayed} stayed"
            print(f"{said}: {news} (so far {sum(kills.values())} kills, {counts})", flush=True)
    every = [took for some in settled.values() for took in some]
    moves = {"moves_refused": wanted.refused, "moves_stayed": wanted.stayed}
    result: Result = {"rounds": rounds, "kills": dict(kills), **moves, "settled_s": settled, "wrong": wrong}
    rows = [
        {
            "killed in the midst of a": kind,
            "times": kills[kind],
            **{name: f"{value:.1f} s" for name, value in spread(settled[kind]).items()},
        }
        for kind in DEATHS
        if settled[kind]
    ]
    publish("controller-kill9", result, rows)
    if every:
        print("settled again after:", {name: f"{value:.1f} s" for name, value in spread(every).items()})
    print(f"WRONG: {wrong}" if wrong else f"all as it should be, {sum(kills.values())} times")
    return not wrong


async def _round(
    session: zab.Session, wanted: Wanted, fakes: Brokers, kind: str, kills: Counter[str], random: Random
) -> float | None:
    """How long it took until everything was as it should be; None if there was no controller to be killed."""
    wanted.begin({ident: len(fakes.log(ident)) for ident in IDS})
    await _ask(session, wanted, kind, random)
    await trio.sleep(random.random() * STRIKES_S * (1 if kind != DEATHS[-1] else 3))  # some moves are to have begun
    victim = await controller_of(session)
    if victim is None:
        await _until_settled(session, wanted, fakes)
        return None
    began = time.monotonic()
    fakes.kill(victim)
    wanted.dead.add(victim)
    kills[kind] += 1
    if kind == "failover":  # the next one, too, in the midst of taking over
        await _kill_the_next(session, fakes, wanted, victim, random)
    if kind == DEATHS[-1]:
        await _until_settled(session, wanted, fakes, away=victim)
    await trio.sleep(random.random() * DOWN_S)
    for ident in IDS:
        if ident not in fakes.alive():
            fakes.start(ident)
    await _until_settled(session, wanted, fakes)
    return time.monotonic() - began


# -- what people ask -------------------------------------------------------------------------------------


async def _create(session: zab.Session, wanted: Wanted, random: Random) -> None:
    wanted.made += 1
    name = f"t{wanted.made}"
    held = {}
    for number in range(PARTITIONS):
        first, factor = random.randrange(len(IDS)), random.randint(1, len(IDS))
        replicas = tuple(BrokerId(IDS[(first + place) % len(IDS)]) for place in range(factor))
        held[number] = Assignment(replicas)
        wanted.replicas[TopicPartition(name, number)] = replicas
    await session.create(znodes.topic_path(name), znodes.topic(TopicId(f"T{wanted.made:021}"), held))


async def _ask(session: zab.Session, wanted: Wanted, kind: str, random: Random) -> None:
    if kind.startswith("reassignment"):
        moves: dict[TopicPartition, tuple[BrokerId, ...]] = {}
        for where, replicas in wanted.replicas.items():
            if random.random() < 0.7:
                shift = random.randint(1, len(IDS) - 1)
                moves[where] = tuple(BrokerId((broker - 1 + shift) % len(IDS) + 1) for broker in replicas)
        if moves:
            await session.create(znodes.REASSIGN, znodes.reassignment(moves))
            wanted.before = {where: wanted.replicas[where] for where in moves}
            wanted.replicas.update(moves)
    elif kind == "deletion":
        name = random.choice(sorted({where.topic for where in wanted.replicas}))
        await session.create(f"{znodes.DELETE_TOPICS}/{name}")
        wanted.replicas = {where: to for where, to in wanted.replicas.items() if where.topic != name}


async def _kill_the_next(session: zab.Session, fakes: Brokers, wanted: Wanted, before: int, random: Random) -> None:
    with trio.move_on_after(WITHIN_S):
        while (found := await controller_of(session)) in (None, before):
            await trio.sleep(0.005)
        await trio.sleep(random.random() * STRIKES_S)
        if found in fakes.alive():
            assert found is not None
            fakes.kill(found)
            wanted.dead.add(found)


# -- and what must be ------------------------------------------------------------------------------------


async def _until_settled(session: zab.Session, wanted: Wanted, fakes: Brokers, away: int | None = None) -> None:
    until = time.monotonic() + WITHIN_S
    while True:
        try:
            await session.sync()
            await look(session, wanted, fakes, away)
            return
        except NotThere as missing:
            dead = [ident for ident in IDS if ident != away and ident not in fakes.alive()]
            if dead or time.monotonic() > until:
                logs = "".join(f"broker {ident}:\n{wanted.said(ident, fakes)[-3_000:]}" for ident in IDS)
                raise NotThere(f"{missing}; ended by themselves: {dead}\n{logs}") from None
        except zab.NoNode:
            pass  # it went while it was looked at
        await trio.sleep(0.05)
