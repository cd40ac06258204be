"""The injection of network faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from harness import faults
from harness.worlds.cores.injection import Injection, Injector, Undo, at_running, at_server, done
from harness.worlds.cores.server import Server
from zab.core.zxid import ServerId

Pair: TypeAlias = tuple[ServerId, ServerId]
"""A direction: from the first to the second."""


# -- directions that are blocked -------------------------------------------------------------------------


def _blocking(pairs_of: Callable[[Injector, Any], Sequence[Pair] | None]) -> Injection:
    def inject(nemesis: Injector, fault: Any) -> Undo | None:
        pairs, network = pairs_of(nemesis, fault), nemesis.world.network
        if pairs is None:
            return None
        _each(network.block, pairs)
        return partial(_each, network.unblock, pairs)

    return inject


def _each(act: Callable[[ServerId, ServerId], None], pairs: Sequence[Pair]) -> None:
    for pair in pairs:
        act(*pair)


def _between_groups(ids: Sequence[ServerId], groups: Sequence[Sequence[ServerId]]) -> list[Pair]:
    return [
        (one, other)
        for one in ids
        for other in ids
        if one != other and not any(one in group and other in group for group in groups)
    ]


def _partition(nemesis: Injector, fault: faults.Partition) -> list[Pair] | None:
    groups = [[server.id for sid in group if (server := nemesis.who(sid)) is not None] for group in fault.groups]
    return _between_groups(nemesis.ids(), groups) or None


def _split(nemesis: Injector, fault: faults.Split) -> list[Pair] | None:
    begin = nemesis.who(fault.server)
    if begin is None:
        return None
    founded = [server.id for server in nemesis.founded()]
    at = founded.index(begin.id)
    return shape(fault.shape, [*founded[at:], *founded[:at]]) or None


def shape(name: str, ids: Sequence[ServerId]) -> list[Pair]:
    """Return the directions that a partition of this shape blocks."""
    first, rest = ids[0], ids[1:]
    if name == "ring":
        return [(ids[j], ids[i]) for i in range(len(ids)) for j in range(len(ids)) if j not in _heard(i, len(ids))]
    if name == "bridge":
        half = len(rest) // 2
        return _between_groups(ids, [[first, *rest[:half]], [first, *rest[half:]]])
    half = max(1, len(ids) // 2)
    return _between_groups(ids, [ids[:half], ids[half:]])


def _heard(place: int, count: int) -> list[int]:
    """Return a place in the ring and the nearest others, so many that they are a majority."""
    steps = [step for near in range(1, count) for step in (near, -near)][: count // 2]
    return [place, *((place + step) % count for step in steps)]


def _isolated(nemesis: Injector, fault: faults.Isolate) -> list[Pair] | None:
    server = nemesis.who(fault.server)
    return None if server is None else _from(nemesis, server) + _to(nemesis, server)


def _deafened(nemesis: Injector, fault: faults.Deaf) -> list[Pair] | None:
    server = nemesis.who(fault.server)
    return None if server is None else _to(nemesis, server)


def _from(nemesis: Injector, server: Server) -> list[Pair]:
    return [(server.id, sid) for sid in nemesis.ids() if sid != server.id]


def _to(nemesis: Injector, server: Server) -> list[Pair]:
    return [(sid, server.id) for sid in nemesis.ids() if sid != server.id]


def _pair(nemesis: Injector, fault: Any) -> Pair | None:
    source, target = nemesis.who(fault.source), nemesis.who(fault.target)
    return None if source is None or target is None or source is target else (source.id, target.id)


def _apart(nemesis: Injector, fault: faults.Apart) -> list[Pair] | None:
    pair = _pair(nemesis, fault)
    return None if pair is None else [pair, (pair[1], pair[0])]


def _one_way(nemesis: Injector, fault: faults.OneWay) -> list[Pair] | None:
    pair = _pair(nemesis, fault)
    return None if pair is None else [pair]


# -- one direction, or all -------------------------------------------------------------------------------


def _clog(nemesis: Injector, fault: faults.Clog) -> Undo | None:
    if pair := _pair(nemesis, fault):
        nemesis.world.network.clog(*pair)
        return partial(nemesis.world.network.unclog, *pair)
    return None


def _swizzle(nemesis: Injector, fault: faults.Swizzle) -> Undo:
    network, ids = nemesis.world.network, [server.id for server in nemesis.founded()]
    nemesis.random.shuffle(ids)
    chosen = ids[: max(1, len(ids) // 2)]
    again = list(chosen)
    nemesis.random.shuffle(again)
    steps, ms = 2 * len(chosen), fault.for_ms
    for number, sid in enumerate(chosen):
        nemesis.later(ms * number // steps, partial(_each, network.clog, _around(nemesis, sid)))
    for number, sid in enumerate(again, 1):
        nemesis.later(ms * (len(again) + number) // steps, partial(_each, network.unclog, _around(nemesis, sid)))
    return done


def _around(nemesis: Injector, sid: ServerId) -> list[Pair]:
    return [pair for other in nemesis.ids() if other != sid for pair in ((sid, other), (other, sid))]


def _overflow(nemesis: Injector, fault: faults.Overflow) -> None:
    """Bound the messages that wait. It counts as a hit when a link is cut for that."""
    if pair := _pair(nemesis, fault):
        network = nemesis.world.network
        network.bound(*pair, fault.most, partial(nemesis.hit, fault))
        nemesis.later(fault.for_ms, partial(network.unbound, *pair))


def _delay(nemesis: Injector, fault: faults.Delay) -> Undo | None:
    if pair := _pair(nemesis, fault):
        nemesis.world.network.delay(*pair, fault.more_ms * 1_000)
        return partial(nemesis.world.network.delay, *pair, -fault.more_ms * 1_000)
    return None


def _loss(nemesis: Injector, fault: faults.Loss) -> Undo | None:
    if pair := _pair(nemesis, fault):
        nemesis.world.network.lose(*pair, fault.percent)
        return partial(nemesis.world.network.lose, *pair, -fault.percent)
    return None


def _flaky(nemesis: Injector, fault: faults.Flaky) -> Undo:
    network = nemesis.world.network
    loss, double = fault.loss_percent / 100, fault.double_percent / 100
    network.loss += loss
    network.double += double
    network.slower *= fault.slower

    def steady() -> None:
        network.loss -= loss
        network.double -= double
        network.slower //= fault.slower

    return steady


def _reorder(nemesis: Injector, fault: faults.Reorder) -> Undo:
    held = (fault.percent, fault.hold_ms * 1_000)
    nemesis.world.network.reordering.append(held)
    return partial(nemesis.world.network.reordering.remove, held)


# -- links -----------------------------------------------------------------------------------------------


def _cut_links(nemesis: Injector, server: Server, _: faults.CutLinks) -> Undo:
    nemesis.world.network.cut(server)
    return done


def _double_links(nemesis: Injector, server: Server, _: faults.DoubleLinks) -> Undo | None:
    return done if not server.paused and nemesis.world.network.double_links(server) else None


INJECTIONS: Final[dict[type, Injection]] = {
    faults.Partition: _blocking(_partition),
    faults.Split: _blocking(_split),
    faults.Isolate: _blocking(_isolated),
    faults.Apart: _blocking(_apart),
    faults.OneWay: _blocking(_one_way),
    faults.Deaf: _blocking(_deafened),
    faults.Clog: _clog,
    faults.Swizzle: _swizzle,
    faults.Overflow: _overflow,
    faults.Delay: _delay,
    faults.Loss: _loss,
    faults.Flaky: _flaky,
    faults.Reorder: _reorder,
    faults.CutLinks: at_server(_cut_links),
    faults.DoubleLinks: at_running(_double_links),
}
