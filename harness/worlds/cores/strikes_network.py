"""The effects of network faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from harness.faults import (
    Apart,
    Clog,
    CutLinks,
    Deaf,
    Delay,
    DoubleLinks,
    Flaky,
    Isolate,
    Loss,
    OneWay,
    Overflow,
    Partition,
    Reorder,
    Split,
    Swizzle,
)
from zab.core.zxid import ServerId

if TYPE_CHECKING:
    from harness.worlds.cores.nemesis import Nemesis

Pair = tuple[ServerId, ServerId]
"""A direction: from the first to the second."""


# -- who hears whom --------------------------------------------------------------------------------------


def _block(nemesis: Nemesis, pairs: Sequence[Pair], for_ms: int) -> None:
    network = nemesis.world.network
    for source, target in pairs:
        network.block(source, target)
    nemesis.later(for_ms, _unblock, nemesis, pairs)


def _unblock(nemesis: Nemesis, pairs: Sequence[Pair]) -> None:
    for source, target in pairs:
        nemesis.world.network.unblock(source, target)


def _between_groups(ids: Sequence[ServerId], groups: Sequence[Sequence[ServerId]]) -> list[Pair]:
    return [
        (one, other)
        for one in ids
        for other in ids
        if one != other and not any(one in group and other in group for group in groups)
    ]


def _partition(nemesis: Nemesis, fault: Partition) -> None:
    groups = []
    for group in fault.groups:
        found = [nemesis.who(sid) for sid in group]
        groups.append([server.id for server in found if server is not None])
    pairs = _between_groups(nemesis.ids(), groups)
    if pairs:
        nemesis.hit(fault)
        _block(nemesis, pairs, fault.for_ms)


def _split(nemesis: Nemesis, fault: Split) -> None:
    begin = nemesis.who(fault.server)
    if begin is None:
        return
    founded = [server.id for server in nemesis.world.servers[1:] if server.founded]
    at = founded.index(begin.id)
    pairs = shape(fault.shape, [*founded[at:], *founded[:at]])
    if pairs:
        nemesis.hit(fault)
        _block(nemesis, pairs, fault.for_ms)


def shape(name: str, ids: Sequence[ServerId]) -> list[Pair]:
    """The directions in which nothing is heard."""
    first, rest = ids[0], ids[1:]
    if name == "ring":
        return [(ids[j], ids[i]) for i in range(len(ids)) for j in range(len(ids)) if j not in _heard(i, len(ids))]
    if name == "bridge":
        half = len(rest) // 2
        return _between_groups(ids, [[first, *rest[:half]], [first, *rest[half:]]])
    half = max(1, len(ids) // 2)
    return _between_groups(ids, [ids[:half], ids[half:]])


def _heard(who: int, count: int) -> list[int]:
    """By its place in the ring: itself, and so many of the nearest as make a majority with it."""
    steps = [step for near in range(1, count) for step in (near, -near)][: count // 2]
    return [who, *((who + step) % count for step in steps)]


def _isolate(nemesis: Nemesis, fault: Isolate) -> None:
    server = nemesis.who(fault.server)
    if server is not None:
        nemesis.hit(fault)
        others = [sid for sid in nemesis.ids() if sid != server.id]
        _block(nemesis, [(server.id, sid) for sid in others] + [(sid, server.id) for sid in others], fault.for_ms)


def _deaf(nemesis: Nemesis, fault: Deaf) -> None:
    server = nemesis.who(fault.server)
    if server is not None:
        nemesis.hit(fault)
        _block(nemesis, [(sid, server.id) for sid in nemesis.ids() if sid != server.id], fault.for_ms)


# -- one direction ---------------------------------------------------------------------------------------


def _direction(nemesis: Nemesis, fault: Any) -> Pair | None:
    source, target = nemesis.who(fault.source), nemesis.who(fault.target)
    if source is None or target is None or source is target:
        return None
    nemesis.hit(fault)
    return source.id, target.id


def _apart(nemesis: Nemesis, fault: Apart) -> None:
    if pair := _direction(nemesis, fault):
        _block(nemesis, [pair, (pair[1], pair[0])], fault.for_ms)


def _one_way(nemesis: Nemesis, fault: OneWay) -> None:
    if pair := _direction(nemesis, fault):
        _block(nemesis, [pair], fault.for_ms)


def _clog(nemesis: Nemesis, fault: Clog) -> None:
    if pair := _direction(nemesis, fault):
        nemesis.world.network.clog(*pair)
        nemesis.later(fault.for_ms, nemesis.world.network.unclog, *pair)


def _swizzle(nemesis: Nemesis, fault: Swizzle) -> None:
    ids = [server.id for server in nemesis.world.servers[1:] if server.founded]
    nemesis.random.shuffle(ids)
    chosen = ids[: max(1, len(ids) // 2)]
    again = list(chosen)
    nemesis.random.shuffle(again)
    nemesis.hit(fault)
    for number, sid in enumerate(chosen):
        nemesis.later(fault.for_ms * number // (2 * len(chosen)), _clog_all, nemesis, sid)
    for number, sid in enumerate(again, 1):
        nemesis.later(fault.for_ms * (len(again) + number) // (2 * len(again)), _unclog_all, nemesis, sid)


def _around(nemesis: Nemesis, sid: ServerId) -> list[Pair]:
    return [pair for other in nemesis.ids() if other != sid for pair in ((sid, other), (other, sid))]


def _clog_all(nemesis: Nemesis, sid: ServerId) -> None:
    for pair in _around(nemesis, sid):
        nemesis.world.network.clog(*pair)


def _unclog_all(nemesis: Nemesis, sid: ServerId) -> None:
    for pair in _around(nemesis, sid):
        nemesis.world.network.unclog(*pair)


def _overflow(nemesis: Nemesis, fault: Overflow) -> None:
    source, target = nemesis.who(fault.source), nemesis.who(fault.target)
    if source is not None and target is not None and source is not target:
        network = nemesis.world.network
        network.bound(source.id, target.id, fault.most, lambda: nemesis.hit(fault))
        nemesis.later(fault.for_ms, network.unbound, source.id, target.id)


def _delay(nemesis: Nemesis, fault: Delay) -> None:
    if pair := _direction(nemesis, fault):
        more_us = fault.more_ms * 1_000
        nemesis.world.network.delay(*pair, more_us)
        nemesis.later(fault.for_ms, _no_delay, nemesis, (pair, more_us))


def _no_delay(nemesis: Nemesis, was: tuple[Pair, int]) -> None:
    pair, more_us = was
    nemesis.world.network.delay(*pair, -more_us)


def _loss(nemesis: Nemesis, fault: Loss) -> None:
    if pair := _direction(nemesis, fault):
        nemesis.world.network.lose(*pair, fault.percent)
        nemesis.later(fault.for_ms, _no_loss, nemesis, (pair, fault.percent))


def _no_loss(nemesis: Nemesis, was: tuple[Pair, int]) -> None:
    pair, percent = was
    nemesis.world.network.lose(*pair, -percent)


# -- everywhere ------------------------------------------------------------------------------------------


def _flaky(nemesis: Nemesis, fault: Flaky) -> None:
    network = nemesis.world.network
    loss, double = fault.loss_percent / 100, fault.double_percent / 100
    network.loss += loss
    network.double += double
    network.slower *= fault.slower
    nemesis.hit(fault)
    nemesis.later(fault.for_ms, _steady, nemesis, (loss, double, fault.slower))


def _steady(nemesis: Nemesis, was: tuple[float, float, int]) -> None:
    network = nemesis.world.network
    network.loss -= was[0]
    network.double -= was[1]
    network.slower //= was[2]


def _reorder(nemesis: Nemesis, fault: Reorder) -> None:
    held = (fault.percent, fault.hold_ms * 1_000)
    nemesis.world.network.reordering.append(held)
    nemesis.hit(fault)
    nemesis.later(fault.for_ms, _in_order, nemesis, held)


def _in_order(nemesis: Nemesis, held: tuple[int, int]) -> None:
    nemesis.world.network.reordering.remove(held)


# -- links -----------------------------------------------------------------------------------------------


def _cut_links(nemesis: Nemesis, fault: CutLinks) -> None:
    server = nemesis.who(fault.server)
    if server is not None:
        nemesis.hit(fault)
        nemesis.world.network.cut(server)


def _double_links(nemesis: Nemesis, fault: DoubleLinks) -> None:
    server = nemesis.who(fault.server)
    if server is not None and server.up and not server.paused and nemesis.world.network.double_links(server):
        nemesis.hit(fault)


STRIKES: Final[dict[type, Callable[[Any, Any], None]]] = {
    Partition: _partition,
    Split: _split,
    Isolate: _isolate,
    Apart: _apart,
    OneWay: _one_way,
    Deaf: _deaf,
    Clog: _clog,
    Swizzle: _swizzle,
    Overflow: _overflow,
    Delay: _delay,
    Loss: _loss,
    Flaky: _flaky,
    Reorder: _reorder,
    CutLinks: _cut_links,
    DoubleLinks: _double_links,
}
