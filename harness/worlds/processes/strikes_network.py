"""Faults of the network, made by the proxies between the servers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import trio

from harness.faults import Apart, Clog, CutLinks, Deaf, Delay, Flaky, Isolate, OneWay, Partition, Split, Swizzle
from harness.worlds.cores.inject_network import shape
from zab.core.zxid import ServerId

if TYPE_CHECKING:
    from harness.worlds.processes.nemesis import Nemesis

Pair = tuple[int, int]


async def _block(nemesis: Nemesis, pairs: Iterable[Pair], for_ms: int) -> None:
    blocked = list(pairs)
    network = nemesis.world.network
    network.block(blocked)
    try:
        await nemesis.sleep(for_ms)
    finally:
        network.unblock(blocked)


async def _partition(nemesis: Nemesis, fault: Partition) -> None:
    groups = []
    for group in fault.groups:
        found = [nemesis.who(sid) for sid in group]
        groups.append([server.sid for server in found if server is not None])
    await _apart(nemesis, groups, fault.for_ms)


async def _split(nemesis: Nemesis, fault: Split) -> None:
    first = nemesis.who(fault.server)
    if first is not None:
        founded = [ServerId(sid) for sid, server in nemesis.world.servers.items() if server.founded]
        at = founded.index(ServerId(first.sid))
        await _block(nemesis, shape(fault.shape, [*founded[at:], *founded[:at]]), fault.for_ms)


async def _apart(nemesis: Nemesis, groups: list[list[int]], for_ms: int) -> None:
    ids = list(nemesis.world.servers)
    pairs = [
        (one, other)
        for one in ids
        for other in ids
        if one != other and not any(one in group and other in group for group in groups)
    ]
    await _block(nemesis, pairs, for_ms)


async def _isolate(nemesis: Nemesis, fault: Isolate) -> None:
    server = nemesis.who(fault.server)
    if server is not None:
        me, others = server.sid, nemesis.others(server)
        await _block(nemesis, [(me, sid) for sid in others] + [(sid, me) for sid in others], fault.for_ms)


async def _two(nemesis: Nemesis, fault: Apart | OneWay | Clog | Delay) -> Pair | None:
    source, target = nemesis.who(fault.source), nemesis.who(fault.target)
    return None if source is None or target is None or source is target else (source.sid, target.sid)


async def _both_ways(nemesis: Nemesis, fault: Apart) -> None:
    if pair := await _two(nemesis, fault):
        await _block(nemesis, [pair, pair[::-1]], fault.for_ms)


async def _one_way(nemesis: Nemesis, fault: OneWay | Clog) -> None:
    if pair := await _two(nemesis, fault):
        await _block(nemesis, [pair], fault.for_ms)


async def _deaf(nemesis: Nemesis, fault: Deaf) -> None:
    server = nemesis.who(fault.server)
    if server is not None:
        await _block(nemesis, [(sid, server.sid) for sid in nemesis.others(server)], fault.for_ms)


async def _swizzle(nemesis: Nemesis, fault: Swizzle) -> None:
    """Each of a half is clogged in turn in the first third of the time, and freed in the last, in another order."""
    world = nemesis.world
    ids = list(world.servers)
    some = world.random.sample(ids, max(1, len(ids) // 2))
    step_ms = fault.for_ms / (3 * len(some))
    async with trio.open_nursery() as nursery:
        for place, sid in enumerate(some):
            pairs = [(sid, other) for other in ids if other != sid]
            back = world.random.randrange(len(some))
            nursery.start_soon(_clogged_later, nemesis, pairs, place * step_ms, fault.for_ms * 2 / 3 + back * step_ms)


async def _clogged_later(nemesis: Nemesis, pairs: list[Pair], from_ms: float, until_ms: float) -> None:
    await nemesis.sleep(from_ms)
    await _block(nemesis, pairs, round(until_ms - from_ms))


async def _delay(nemesis: Nemesis, fault: Delay) -> None:
    if pair := await _two(nemesis, fault):
        network = nemesis.world.network
        more_s = fault.more_ms * nemesis.world.scale / 1000
        network.slow(*pair, more_s)
        try:
            await nemesis.sleep(fault.for_ms)
        finally:
            network.slow(*pair, -more_s)


async def _flaky(nemesis: Nemesis, fault: Flaky) -> None:
    """Everything is slow, and a word on the election channel that is lost takes its connection with it."""
    network, timing = nemesis.world.network, nemesis.world.script.timing
    slow_s = fault.slower * timing.delay_us_max * nemesis.world.scale / 1e6
    loss = fault.loss_percent / 100
    network.delay_s += slow_s
    network.loss += loss
    try:
        await nemesis.sleep(fault.for_ms)
    finally:
        network.delay_s = max(0.0, network.delay_s - slow_s)
        network.loss = max(0.0, network.loss - loss)


async def _cut_links(nemesis: Nemesis, fault: CutLinks) -> None:
    server = nemesis.who(fault.server)
    if server is not None:
        nemesis.world.network.cut(server.sid)


STRIKES: Final[dict[type, Callable[[Any, Any], Awaitable[None]]]] = {
    Partition: _partition,
    Split: _split,
    Isolate: _isolate,
    Apart: _both_ways,
    OneWay: _one_way,
    Clog: _one_way,
    Deaf: _deaf,
    Swizzle: _swizzle,
    Delay: _delay,
    Flaky: _flaky,
    CutLinks: _cut_links,
}
