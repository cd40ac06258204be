"""Requests for nodes with ACLs, nodes that servers delete by themselves, and nodes below a quota."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from attrs import evolve

from harness.faults import Ask, Connect, Leave, Op, Step
from harness.script.chance import Draw
from harness.script.kinds import CHILDREN, CLIENTS_MAX, PARENTS

LISTS: Final = (
    "auth:rwcda",
    "auth:rwcda, world:r",
    "world:rwcda",
    "u1:rwcda, u2:rwc, world:r",
    "u1:rwcda, world:rc",
    "u2:rwcda, u3:rd",
    "world:rwca",
    "u3:a, world:rwcd",
)
PATHS: Final = (*PARENTS, *CHILDREN)


def _among(draw: Draw, values: Sequence[str]) -> str:
    return values[draw.upto(0, len(values) - 1)]


def not_for_all(draw: Draw, length_ms: int) -> Sequence[Op]:
    """Users make nodes that others may not touch, change who may, and try what they may not; some are nobody.

    Whoever watches hears only of what it may read.
    """
    clients = CLIENTS_MAX
    ops: list[Op] = [
        Connect(60 + each, each, draw.upto(1, draw.servers), 2_000, each if each < clients else draw.upto(0, 1))
        for each in range(1, clients + 1)
    ]
    ops += [Ask(260, 1, (Step("create", path, acl=_among(draw, ("", *LISTS[1:4]))),)) for path in PARENTS]
    ops += [Ask(280, each, (_watch(draw),)) for each in range(1, clients + 1) if draw.chance(0.6)]
    for at in range(300, length_ms - 20, draw.upto(6, 14)):
        client, share = draw.upto(1, clients), draw.random.random()
        if share < 0.04:
            # On another connection it may be at a server that has its state from a snapshot.
            ops.append(Connect(at, client, draw.upto(1, draw.servers), 2_000))
            continue
        if share < 0.14:  # what is under way decides who may do what comes behind it
            path = _among(draw, PATHS)
            ops.append(Ask(at, client, (_set_list(draw, path),)))
            ops += [Ask(at, draw.upto(1, clients), (_touched(draw, path),)) for _ in range(draw.upto(1, 4))]
        elif share < 0.24:
            ops.append(Ask(at, client, tuple(_part(draw, _among(draw, PATHS)) for _ in range(draw.upto(2, 3)))))
        else:
            ops.append(Ask(at, client, (_touched(draw, _among(draw, PATHS)),)))
    return ops


def _set_list(draw: Draw, path: str) -> Step:
    return Step("setacl", path, draw.upto(0, 2) if draw.chance(0.2) else -1, acl=_among(draw, ("", *LISTS)))


def _written(draw: Draw, path: str) -> Step:
    share = draw.random.random()
    version = draw.upto(0, 2) if draw.chance(0.2) else -1
    if share < 0.45:
        return Step("create", path, acl=_among(draw, ("", "", *LISTS)))
    if share < 0.65:
        return Step("set", path, version)
    return Step("check", path, version) if share < 0.7 else Step("delete", path, version)


def _part(draw: Draw, path: str) -> Step:
    """Of a multi, where more is only checked: whether that may be known is asked of the node's list, too."""
    step = _written(draw, path)
    return evolve(step, op="check") if step.op == "delete" and draw.chance(0.5) else step


def _touched(draw: Draw, path: str) -> Step:
    """Any one step."""
    share = draw.random.random()
    if share < 0.6:
        step = _written(draw, path)
        return Step("set", path) if step.op == "check" else step
    if share < 0.7:
        return _set_list(draw, path)
    if share < 0.73:
        return _watch(draw)
    op = _among(draw, ("get", "exists", "children", "getacl"))
    return Step(op, path, watch="once" if op != "getacl" and draw.chance(0.4) else "")


def _watch(draw: Draw) -> Step:
    return Step("watch", _among(draw, PATHS), watch=_among(draw, ("persistent", "recursive")))


OFTEN_MS: Final = 25


def passing(draw: Draw, length_ms: int) -> Sequence[Op]:
    """Containers that are left by their last child, and nodes for a time, just when somebody comes back to them."""
    clients = draw.upto(2, CLIENTS_MAX)
    ops: list[Op] = [Connect(60 + each, each, draw.upto(1, draw.servers), 2_000) for each in range(1, clients + 1)]
    ops += [Ask(260, 1, (Step("create", path),)) for path in PARENTS]
    for at in range(300, length_ms - 20, draw.upto(OFTEN_MS // 3, OFTEN_MS)):
        client, other = draw.upto(1, clients), draw.upto(1, clients)
        share = draw.random.random()
        if share < 0.25:
            ops.append(Ask(at, client, (Step("create", "/b/x", mode=_among(draw, ("container", "container", "ttl"))),)))
        elif share < 0.5:
            ops.append(Ask(at, client, (Step("create", "/b/x/z"),)))
            if draw.chance(0.7):
                ops.append(Ask(at, client, (Step("delete", "/b/x/z"),)))
        elif share < 0.6:
            made = Step("create", "/b/x", mode="container"), Step("create", "/b/x/z"), Step("delete", "/b/x/z")
            ops.append(Ask(at, client, made))
        elif share < 0.7:
            ops.append(Ask(at, client, (Step("create", "/a/x", mode="ttl"),)))
        elif share < 0.8:
            ops.append(Ask(at, other, (Step("set", _among(draw, ("/a/x", "/b/x"))),)))
        elif share < 0.9:
            ops.append(Ask(at, other, (Step("delete", _among(draw, ("/a/x", "/b/x", "/b/x/z"))),)))
        else:
            ops.append(Ask(at, other, (Step(_among(draw, ("get", "children", "exists")), "/b/x"),)))
    return ops


LIMITS: Final = (
    "count=-1,bytes=-1=;countHardLimit=4",
    "count=-1,bytes=-1=;byteHardLimit=120",
    "count=2,bytes=60=;byteHardLimit=200;countHardLimit=6",
    "count=3,bytes=40",
)
"""Hard and soft ones, both, and soft ones alone, which nothing is refused for."""
_QUOTA: Final = "/zookeeper/quota/a"
_NODES: Final = tuple(Step("create", f"{_QUOTA}{name}") for name in ("", "/zookeeper_limits", "/zookeeper_stats"))


def _limited(draw: Draw) -> list[Step]:
    """As an administrator's command does it, one after the other."""
    return [evolve(step, limits=_among(draw, LIMITS)) if "limits" in step.path else step for step in _NODES]


def within_limits(draw: Draw, length_ms: int) -> Sequence[Op]:
    """All write below a node that is limited, grow there and shrink, and leave; limits change, go and come again."""
    clients = draw.upto(2, CLIENTS_MAX)
    ops: list[Op] = [Connect(60 + each, each, draw.upto(1, draw.servers), 2_000) for each in range(1, clients + 1)]
    ops += [Ask(260, 1, (Step("create", path),)) for path in PARENTS]
    ops += [Ask(280, 1, (step,)) for step in _limited(draw)]
    for at in range(300, length_ms - 20, draw.upto(OFTEN_MS // 3, OFTEN_MS)):
        client, share = draw.upto(1, clients), draw.random.random()
        if share < 0.7:
            ops.append(Ask(at, client, (_grown(draw),)))
        elif share < 0.78:
            ops.append(Ask(at, client, tuple(_grown(draw) for _ in range(draw.upto(2, 3)))))
        elif share < 0.86:
            ops.append(Ask(at, client, (Step("get", _NODES[2].path),)))
        elif share < 0.9:
            ops += [Leave(at, client), Connect(at + 10, client, draw.upto(1, draw.servers), 2_000)]
        elif share < 0.94:
            ops.append(Connect(at, client, draw.upto(1, draw.servers), 2_000))
        elif share < 0.97:
            ops.append(Ask(at, 1, (Step("set", _NODES[1].path, limits=_among(draw, LIMITS)),)))
        else:
            gone = [Step("delete", step.path) for step in _NODES[:0:-1]]
            ops += [Ask(at, 1, (step,)) for step in (*gone, *_limited(draw))]
    return ops


def _grown(draw: Draw) -> Step:
    share, path = draw.random.random(), _among(draw, ("/a/x", "/a/y", "/a/x/z", "/b/x"))
    if share < 0.35:
        return Step("create", path, mode=_among(draw, ("", "", "ephemeral", "container")), size=draw.upto(0, 60))
    if share < 0.5:
        mode = _among(draw, ("sequential", "ephemeral sequential"))
        return Step("create", "/a/s-", mode=mode, size=draw.upto(0, 40))
    if share < 0.8:
        return Step("set", _among(draw, ("/a", path)), size=draw.upto(0, 60))
    return Step("delete", path)
