"""The injection of network faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from harness import faults
from harness.worlds.cores.injection import Injection, Injector, Undo, at_running, at_server, done
from harness.worlds.cores.network import Network
from harness.worlds.cores.server import Server
from zab.core.zxid import ServerId

Pair: TypeAlias = tuple[ServerId, ServerId]
"""A direction: from the first to the second."""
Act: TypeAlias = Callable[[ServerId, ServerId], None]


def _each(act: Act, pairs: Sequence[Pair]) -> None:
    for pair in pairs:
        act(*pair)


def _during(begin: Act, end: Act, *pairs: Pair) -> Undo:
    _each(begin, pairs)
    return partial(_each, end, pairs)


def _blocked(nemesis: Injector, *pairs: Pair) -> Undo:
    return _during(nemesis.world.network.block, nemesis.world.network.unblock, *pairs)


def _at_pair(inject: Callable[[Injector, Network, Pair, Any], Undo | None]) -> Injection:
    """Return an injection into the direction that a fault names, if that is one between two different servers."""

    def injected(nemesis: Injector, fault: Any) -> Undo | None:
        source, target = nemesis.target(fault.source), nemesis.target(fault.target)
        if source is None or target is None or source is target:
            return None
        return inject(nemesis, nemesis.world.network, (source.id, target.id), fault)

    return injected


# -- directions between groups ---------------------------------------------------------------------------


def _between_groups(ids: Sequence[ServerId], groups: Sequence[Sequence[ServerId]]) -> list[Pair]:
    return [
        (one, other)
        for one in ids
        for other in ids
        if one != other and not any(one in group and other in group for group in groups)
    ]


def _partition(nemesis: Injector, fault: faults.Partition) -> Undo | None:
    groups = [[server.id for sid in group if (server := nemesis.target(sid)) is not None] for group in fault.groups]
    pairs = _between_groups(nemesis.ids(), groups)
    return _blocked(nemesis, *pairs) if pairs else None


def _split(nemesis: Injector, begin: Server, fault: faults.Split) -> Undo | None:
    founded = [server.id for server in nemesis.founded()]
    at = founded.index(begin.id)
    pairs = shape(fault.shape, [*founded[at:], *founded[:at]])
    return _blocked(nemesis, *pairs) if pairs else None


def shape(name: str, ids: Sequence[ServerId]) -> list[Pair]:
    """Return the directions that a partition of this shape blocks."""
    first, rest = ids[0], ids[1:]
    if name == "ring":
        return [(ids[j], ids[i]) for i in range(len(ids)) for j in range(len(ids)) if j not in _nearest(i, len(ids))]
    if name == "bridge":
        half = len(rest) // 2
        return _between_groups(ids, [[first, *rest[:half]], [first, *rest[half:]]])
    half = max(1, len(ids) // 2)
    return _between_groups(ids, [ids[:half], ids[half:]])


def _nearest(place: int, count: int) -> list[int]:
    """Return a place in the ring and its nearest neighbours, which together are the smallest majority."""
    steps = [step for near in range(1, count) for step in (near, -near)][: count // 2]
    return [place, *((place + step) % count for step in steps)]


def _from(nemesis: Injector, server: Server) -> list[Pair]:
    return [(server.id, sid) for sid in nemesis.ids() if sid != server.id]


def _to(nemesis: Injector, server: Server) -> list[Pair]:
    return [(sid, server.id) for sid in nemesis.ids() if sid != server.id]


# -- one direction, or all -------------------------------------------------------------------------------


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


def _overflow(nemesis: Injector, network: Network, pair: Pair, fault: faults.Overflow) -> None:
    """Let messages wait, up to a bound. The fault counts as a hit each time a link is cut at the bound."""
    network.bound(*pair, fault.most, partial(nemesis.hit, fault))
    nemesis.later(fault.for_ms, partial(network.unbound, *pair))


def _delay(_: Injector, network: Network, pair: Pair, fault: faults.Delay) -> Undo:
    network.delay(*pair, fault.more_ms * 1_000)
    return partial(network.delay, *pair, -fault.more_ms * 1_000)


def _loss(_: Injector, network: Network, pair: Pair, fault: faults.Loss) -> Undo:
    network.lose(*pair, fault.percent)
    return partial(network.lose, *pair, -fault.percent)


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


def _cut_links(nemesis: Injector, server: Server, _: faults.CutLinks) -> Undo:
    nemesis.world.network.cut(server)
    return done


def _double_links(nemesis: Injector, server: Server, _: faults.DoubleLinks) -> Undo | None:
    return done if not server.paused and nemesis.world.network.double_links(server) else None


INJECTIONS: Final[dict[type, Injection]] = {
    faults.Partition: _partition,
    faults.Split: at_server(_split),
    faults.Isolate: at_server(
        lambda nemesis, server, _: _blocked(nemesis, *_from(nemesis, server), *_to(nemesis, server))
    ),
    faults.Deaf: at_server(lambda nemesis, server, _: _blocked(nemesis, *_to(nemesis, server))),
    faults.Apart: _at_pair(lambda nemesis, _, pair, __: _blocked(nemesis, pair, (pair[1], pair[0]))),
    faults.OneWay: _at_pair(lambda nemesis, _, pair, __: _blocked(nemesis, pair)),
    faults.Clog: _at_pair(lambda _, network, pair, __: _during(network.clog, network.unclog, pair)),
    faults.Swizzle: _swizzle,
    faults.Overflow: _at_pair(_overflow),
    faults.Delay: _at_pair(_delay),
    faults.Loss: _at_pair(_loss),
    faults.Flaky: _flaky,
    faults.Reorder: _reorder,
    faults.CutLinks: at_server(_cut_links),
    faults.DoubleLinks: at_running(_double_links),
}
