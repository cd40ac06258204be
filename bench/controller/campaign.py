"""`kill -9` of the controller while it moves replicas, deletes topics or takes over, and then a look at everything.

Three servers of the store and three brokers, all processes. After each kill the broker is started again, and before the
next one the following must come true: every partition is led by a live broker that is in sync, all of its replicas are
where they were asked to be and in sync, nothing is left of any request, and no epoch has gone back.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Final

import trio
from attrs import define, field

import zab
from bench.controller.processes import Brokers, brokers
from bench.report import Result, publish, spread
from bench.zookeeper.ensembles import ours
from kraft_controller.core.names import NOBODY, BrokerId, TopicId, TopicPartition, Version
from kraft_controller.core.state import Assignment
from kraft_controller.wire import znodes

IDS: Final = (1, 2, 3)
DEATHS: Final = ("reassignment", "deletion", "failover")
PARTITIONS: Final = 4
WITHIN_S: Final = 120.0
STRIKES_S: Final = 0.12
"""At the latest so long after the request the controller is killed."""
DOWN_S: Final = 0.3


@define
class Wanted:
    """What people have asked for, and what was seen of epochs."""

    replicas: dict[TopicPartition, tuple[BrokerId, ...]] = field(factory=dict)
    before: dict[TopicPartition, tuple[BrokerId, ...]] = field(factory=dict)
    """Of what is to move to somebody who was killed: a move that had not begun by then is refused, and rightly."""
    epochs: dict[tuple[TopicId | None, TopicPartition], int] = field(factory=dict)
    controller_epoch: int = 0
    made: int = 0


class NotThere(Exception):
    """It is not as it should be, yet."""


def run(rounds: int, seed: int, data: Path) -> bool:
    with ours(data / "store") as store, brokers(store.hosts, data / "brokers") as fakes:
        for ident in IDS:
            fakes.start(ident)
        return trio.run(_campaign, store.hosts, fakes, rounds, Random(seed))


async def _campaign(store: str, fakes: Brokers, rounds: int, random: Random) -> bool:
    wanted = Wanted()
    settled: list[float] = []
    kills: Counter[str] = Counter()
    wrong = ""
    async with zab.connect(store, timeout_ms=30_000) as session:
        await _until_settled(session, wanted, fakes)
        for number in range(rounds):
            kind = DEATHS[number % len(DEATHS)]
            wanted.before.clear()
            while len({where.topic for where in wanted.replicas}) < 3:
                await _create(session, wanted, random)
                await _until_settled(session, wanted, fakes)
            await _ask(session, wanted, kind, random)
            await trio.sleep(random.random() * STRIKES_S)
            victim = await _controller(session)
            if victim is not None:
                began = time.monotonic()
                fakes.kill(victim)
                kills[kind] += 1
                if kind == "failover":  # the next one, too, in the midst of taking over
                    await _kill_the_next(session, fakes, victim, random)
                await trio.sleep(random.random() * DOWN_S)
                for ident in IDS:
                    if ident not in fakes.alive():
                        fakes.start(ident)
            wanted.before = {where: old for where, old in wanted.before.items() if victim in wanted.replicas[where]}
            try:
                await _until_settled(session, wanted, fakes)
            except NotThere as missing:
                wrong = f"round {number + 1}, {kind}: {missing}"
                break
            if victim is not None:
                settled.append(time.monotonic() - began)
    result: Result = {"rounds": rounds, "kills": dict(kills), "settled_s": settled, "wrong": wrong}
    rows = [{"killed in the midst of a": kind, "times": kills[kind]} for kind in DEATHS]
    publish("controller-kill9", result, rows)
    if settled:
        print("settled again after:", {name: f"{value:.1f} s" for name, value in spread(settled).items()})
    print(f"WRONG: {wrong}" if wrong else f"all as it should be, {sum(kills.values())} times")
    return not wrong


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
    if kind == "reassignment":
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


async def _controller(session: zab.Session) -> int | None:
    try:
        return znodes.read_controller((await session.get(znodes.CONTROLLER))[0])
    except zab.NoNode:
        return None


async def _kill_the_next(session: zab.Session, fakes: Brokers, before: int, random: Random) -> None:
    with trio.move_on_after(WITHIN_S):
        while (found := await _controller(session)) in (None, before):
            await trio.sleep(0.005)
        await trio.sleep(random.random() * STRIKES_S)
        if found in fakes.alive():
            assert found is not None
            fakes.kill(found)


# -- and what must be ------------------------------------------------------------------------------------


async def _until_settled(session: zab.Session, wanted: Wanted, fakes: Brokers) -> None:
    until = time.monotonic() + WITHIN_S
    while True:
        try:
            await session.sync()
            await _look(session, wanted)
            return
        except NotThere as missing:
            dead = [ident for ident in IDS if ident not in fakes.alive()]
            if dead or time.monotonic() > until:
                logs = "".join(fakes.log(ident) for ident in dead)
                raise NotThere(f"{missing}; ended by themselves: {dead}\n{logs}") from None
        except zab.NoNode:
            pass  # it went while it was looked at
        await trio.sleep(0.05)


async def _look(session: zab.Session, wanted: Wanted) -> None:
    controller = await _controller(session)
    live = {int(name) for name in await session.children(znodes.BROKERS)}
    if controller not in live or live != set(IDS):
        raise NotThere(f"controller {controller}, and {sorted(live)} are registered")
    epoch = znodes.read_controller_epoch((await session.get(znodes.CONTROLLER_EPOCH))[0])
    if epoch < wanted.controller_epoch:
        raise AssertionError(f"the controller's epoch was {wanted.controller_epoch}, and is {epoch}")
    wanted.controller_epoch = epoch
    for path in (znodes.REASSIGN, znodes.PREFERRED):
        if await session.exists(path) is not None:
            raise NotThere(f"{path} is there")
    for path in (znodes.DELETE_TOPICS, znodes.ISR_CHANGES):
        if left := await session.children(path):
            raise NotThere(f"{path} has {left}")
    names = {where.topic for where in wanted.replicas}
    there = set(await session.children(znodes.TOPICS))
    if there != names:
        raise NotThere(f"topics {sorted(there)}, and {sorted(names)} were asked for")
    for name in sorted(names):
        data, _ = await session.get(znodes.topic_path(name))
        topic = znodes.read_topic(name, data, Version(0))
        for number, held in topic.partitions.items():
            where = TopicPartition(name, number)
            await _look_at(session, wanted, topic.id, where, held, live)


async def _look_at(
    session: zab.Session, wanted: Wanted, ident: TopicId | None, where: TopicPartition, held: Assignment, live: set[int]
) -> None:
    data, stat = await session.get(znodes.state_path(where))
    state = znodes.read_partition_state(where, data, Version(stat.version))
    if not held.moving and held.replicas == wanted.before.get(where):
        wanted.replicas[where] = held.replicas
    if held.moving or held.replicas != wanted.replicas[where]:
        raise NotThere(f"{where} is held by {held}, and {wanted.replicas[where]} were asked for")
    if state.leader == NOBODY or state.leader not in live or state.leader not in state.isr:
        raise NotThere(f"{where}: {state}")
    if set(state.isr) != set(held.replicas):
        raise NotThere(f"{where}: {state}, and {held.replicas} hold it")
    before = wanted.epochs.get((ident, where), 0)
    if state.leader_epoch < before:
        raise AssertionError(f"{where}: its leader epoch was {before}, and is {state.leader_epoch}")
    wanted.epochs[ident, where] = state.leader_epoch
