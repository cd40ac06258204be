"""Profiles of the store: sessions, watches, ACLs, quotas, containers and TTL nodes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from attrs import evolve

from harness.faults import FOLLOWER, LEADER, Ask, Connect, Crash, CutLinks, Fault, Isolate, Leave, Op, SlowDisk, Step
from harness.profiles.consensus import DAMPED, NO_LOG_SYNC, fsync
from harness.profiles.profile import QUICK, TICK, Profile, Ranges
from harness.script.values import Draw, Short, Upto
from harness.script.workload import CHILDREN, CLIENTS_MAX, PARENTS, PATHS

CLIENTS: Final = range(1, CLIENTS_MAX + 1)

# -- faults ----------------------------------------------------------------------------------------------


def follower_cut_off(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    """Cut off a follower, with its clients connected, for so long that it needs a snapshot."""
    who = FOLLOWER if draw.chance(0.7) else draw.server()
    faults: list[Fault] = [Isolate(at, draw.upto(150, gap), who)]
    if draw.chance(0.3):
        faults.append(Crash(at + draw.upto(50, gap), draw.upto(1, 100), LEADER))
    return faults


def leader_fails(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    if draw.chance(0.5):
        return (Isolate(at, draw.upto(60, 200), LEADER),)
    return (Crash(at, draw.upto(1, 100), LEADER, "keep"),)


def leader_cut_off(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    """Isolate the leader until another one is elected, and the isolated one would expire its sessions."""
    return (Isolate(at, draw.upto(300, 500), LEADER),)


def links_replaced(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    """Cut the links of a server while all other disks are slow: it reconnects before the leader has processed the
    requests of the last link."""
    who, slow = draw.server(), draw.upto(20, 60)
    faults: list[Fault] = [SlowDisk(at, gap, sid, slow) for sid in range(1, draw.servers + 1) if sid != who]
    return [*faults, *(CutLinks(cut, who) for cut in range(at + draw.upto(30, 80), at + gap, draw.upto(80, 160)))]


# -- clients ---------------------------------------------------------------------------------------------


def _ask(at: int, client: int, *steps: Step) -> Ask:
    return Ask(at, client, steps)


def _connect(draw: Draw, at: int, client: int, timeout_ms: int = 2_000) -> Connect:
    return Connect(at, client, draw.server(), timeout_ms)


def _parents(at: int = 260) -> list[Op]:
    return [_ask(at, 1, Step("create", path)) for path in PARENTS]


def _connected(draw: Draw, clients: int = CLIENTS_MAX) -> list[Op]:
    return [*(_connect(draw, 60 + each, each) for each in range(1, clients + 1)), *_parents()]


def watchers(draw: Draw, length_ms: int) -> Sequence[Op]:
    """Let all clients watch and change all nodes, on different servers."""
    clients = draw.upto(2, CLIENTS_MAX)
    ops = _connected(draw, clients)
    for at in range(300, length_ms - 20, draw.upto(10, 25)):
        client, share, path = draw.upto(1, clients), draw.random.random(), draw.among(CHILDREN)
        if share < 0.25:
            mode = draw.among(("persistent", "recursive", "recursive"))
            step = Step("watch", draw.among(PARENTS), watch=mode)
        elif share < 0.4:
            step = Step("exists", path, watch="once")
        else:
            step = Step("create" if share < 0.7 else "delete" if share < 0.9 else "get", path)
        ops.append(_ask(at, client, step))
    return ops


def writers(draw: Draw, length_ms: int) -> Sequence[Op]:
    ops = _connected(draw)
    for at in range(300, length_ms - 20, draw.upto(6, 12)):
        step = Step("create", f"{draw.among(PARENTS)}/s-", mode="sequential")
        ops += [_ask(at, client, step) for client in CLIENTS if draw.chance(0.5)]
    return ops


def owners_close(draw: Draw, length_ms: int) -> Sequence[Op]:
    ops = _connected(draw)
    for at in range(400, length_ms - 150, draw.upto(90, 140)):
        owner, other, path = draw.upto(2, CLIENTS_MAX), 1, draw.among(CHILDREN)
        delete, own, anybodys = Step("delete", path), Step("create", path, mode="ephemeral"), Step("create", path)
        ops += [_ask(at, other, delete), _ask(at + 1, owner if draw.chance(0.8) else other, own)]
        leaves = at + draw.upto(40, 60)
        taken = leaves - draw.short(1, 20)
        again = draw.among((anybodys, anybodys, own))
        if draw.chance(0.5):
            ops += [_ask(taken, other, delete), _ask(taken, other, again)]
        else:
            ops.append(_ask(taken, other, delete, again))
        if draw.chance(0.3):
            ops.append(_ask(taken, owner, own))
        if draw.chance(0.9):
            ops += [Leave(leaves, owner), _connect(draw, leaves + 20, owner)]
    return ops


def syncs(draw: Draw, length_ms: int) -> Sequence[Op]:
    ops = _connected(draw)
    for at in range(300, length_ms - 20, draw.upto(5, 10)):
        ops.append(_ask(at, draw.upto(1, CLIENTS_MAX), Step("sync" if draw.chance(0.8) else "set", "/a")))
    return ops


def short_sessions(draw: Draw, length_ms: int) -> Sequence[Op]:
    """Return syncs and writes of short sessions. A reply to a sync shows that the leader has the session. A write after
    that reply, before the end of the session, shows that closing the session had not begun. Most of these sessions
    expire at an isolated leader before it steps down."""
    times = {each: 2_000 if each == 1 else draw.upto(100, 220) for each in CLIENTS}
    ops: list[Op] = [*(_connect(draw, 60 + each, each, times[each]) for each in CLIENTS), *_parents()]
    for number, at in enumerate(range(300, length_ms - 20, 40)):
        ops.append(_ask(at, draw.upto(1, CLIENTS_MAX), Step(("sync", "get")[number % 2], "/a")))
        ops.append(_ask(at + 20, 1, Step("set", "/a")))
    return ops


def early_reconnects(draw: Draw, length_ms: int) -> Sequence[Op]:
    """Let clients reconnect early, mostly to the same server."""
    ops = _connected(draw)
    places = [draw.server() for _ in CLIENTS]
    for at in range(300, length_ms - 20, draw.upto(40, 90)):
        client = draw.upto(1, CLIENTS_MAX)
        if draw.chance(0.15):
            places[client - 1] = draw.server()
        ops.append(Connect(at, client, places[client - 1], 2_000, late_ms=draw.short(10, 400)))
        ops.append(_ask(at + 1, client, Step("create", "/a/x", mode="ephemeral")))
    return ops


# -- ACLs ------------------------------------------------------------------------------------------------

ACLS: Final = (
    "auth:rwcda",
    "auth:rwcda, world:r",
    "world:rwcda",
    "u1:rwcda, u2:rwc, world:r",
    "u1:rwcda, world:rc",
    "u2:rwcda, u3:rd",
    "world:rwca",
    "u3:a, world:rwcd",
)


def users_and_acls(draw: Draw, length_ms: int) -> Sequence[Op]:
    """Let users protect nodes, change ACLs, and try operations that these forbid. One client has not authenticated."""
    users = {each: each if each < CLIENTS_MAX else None for each in CLIENTS}
    ops: list[Op] = [
        Connect(60 + each, each, draw.server(), 2_000, draw.upto(0, 1) if user is None else user)
        for each, user in users.items()
    ]
    ops += [_ask(260, 1, Step("create", path, acl=draw.among(("", *ACLS[1:4])))) for path in PARENTS]
    ops += [_ask(280, each, _watch(draw)) for each in CLIENTS if draw.chance(0.6)]
    for at in range(300, length_ms - 20, draw.upto(6, 14)):
        client, share = draw.upto(1, CLIENTS_MAX), draw.random.random()
        if share < 0.04:  # the next server may have its state from a snapshot
            ops.append(_connect(draw, at, client))
        elif share < 0.14:  # the outstanding change decides about the requests that follow it
            path = draw.among(PATHS)
            ops.append(_ask(at, client, _set_acl(draw, path)))
            ops += [_ask(at, draw.upto(1, CLIENTS_MAX), _any_step(draw, path)) for _ in range(draw.upto(1, 4))]
        elif share < 0.24:
            ops.append(_ask(at, client, *(_part(draw, draw.among(PATHS)) for _ in range(draw.upto(2, 3)))))
        else:
            ops.append(_ask(at, client, _any_step(draw, draw.among(PATHS))))
    return ops


def _set_acl(draw: Draw, path: str) -> Step:
    return Step("setacl", path, draw.upto(0, 2) if draw.chance(0.2) else -1, acl=draw.among(("", *ACLS)))


def _write(draw: Draw, path: str) -> Step:
    share = draw.random.random()
    version = draw.upto(0, 2) if draw.chance(0.2) else -1
    if share < 0.45:
        return Step("create", path, acl=draw.among(("", "", *ACLS)))
    return Step("set" if share < 0.65 else "check" if share < 0.7 else "delete", path, version)


def _part(draw: Draw, path: str) -> Step:
    """Return a part of a multi, with more checks than other requests, because a check needs a permission, too."""
    step = _write(draw, path)
    return evolve(step, op="check") if step.op == "delete" and draw.chance(0.5) else step


def _any_step(draw: Draw, path: str) -> Step:
    share = draw.random.random()
    if share < 0.6:
        step = _write(draw, path)
        return Step("set", path) if step.op == "check" else step
    if share < 0.7:
        return _set_acl(draw, path)
    if share < 0.73:
        return _watch(draw)
    op = draw.among(("get", "exists", "children", "getacl"))
    return Step(op, path, watch="once" if op != "getacl" and draw.chance(0.4) else "")


def _watch(draw: Draw) -> Step:
    return Step("watch", draw.among(PATHS), watch=draw.among(("persistent", "recursive")))


# -- containers, TTL nodes, quotas -----------------------------------------------------------------------

OFTEN_MS: Final = 25


def containers_and_ttl(draw: Draw, length_ms: int) -> Sequence[Op]:
    clients = draw.upto(2, CLIENTS_MAX)
    ops = _connected(draw, clients)
    for at in range(300, length_ms - 20, draw.upto(OFTEN_MS // 3, OFTEN_MS)):
        client, other, share = draw.upto(1, clients), draw.upto(1, clients), draw.random.random()
        if share < 0.25:
            ops.append(_ask(at, client, Step("create", "/b/x", mode=draw.among(("container", "container", "ttl")))))
        elif share < 0.5:
            ops.append(_ask(at, client, Step("create", "/b/x/z")))
            if draw.chance(0.7):
                ops.append(_ask(at, client, Step("delete", "/b/x/z")))
        elif share < 0.6:
            container = Step("create", "/b/x", mode="container")
            ops.append(_ask(at, client, container, Step("create", "/b/x/z"), Step("delete", "/b/x/z")))
        elif share < 0.7:
            ops.append(_ask(at, client, Step("create", "/a/x", mode="ttl")))
        elif share < 0.8:
            ops.append(_ask(at, other, Step("set", draw.among(("/a/x", "/b/x")))))
        elif share < 0.9:
            ops.append(_ask(at, other, Step("delete", draw.among(("/a/x", "/b/x", "/b/x/z")))))
        else:
            ops.append(_ask(at, other, Step(draw.among(("get", "children", "exists")), "/b/x")))
    return ops


LIMITS: Final = (
    "count=-1,bytes=-1=;countHardLimit=4",
    "count=-1,bytes=-1=;byteHardLimit=120",
    "count=2,bytes=60=;byteHardLimit=200;countHardLimit=6",
    "count=3,bytes=40",
)
"""Hard and soft limits. The last entry has only soft limits, which refuse no request."""
_LIMITS, _STATS = "zookeeper_limits", "zookeeper_stats"


def _quota(path: str, name: str = "") -> str:
    return f"/zookeeper/quota{path}" + (f"/{name}" if name else "")


def _set_quota(draw: Draw, path: str) -> list[Step]:
    """Return the steps of the command `setquota`."""
    limits = Step("create", _quota(path, _LIMITS), limits=draw.among(LIMITS))
    return [Step("create", _quota(path)), limits, Step("create", _quota(path, _STATS))]


def _unset_quota(draw: Draw, path: str) -> list[Step]:
    """Return both steps of the command `delquota`, or only one of them."""
    gone = [Step("delete", _quota(path, name)) for name in (_STATS, _LIMITS)]
    return gone if draw.chance(0.6) else [draw.among(gone)]


def writes_below_quota(draw: Draw, length_ms: int) -> Sequence[Op]:
    clients = draw.upto(2, CLIENTS_MAX)
    ops = _connected(draw, clients)
    limited = ["/a", "/a/x"] if draw.chance(0.4) else ["/a"]
    ops += [_ask(280, 1, step) for path in limited for step in _set_quota(draw, path)]
    for at in range(300, length_ms - 20, draw.upto(OFTEN_MS // 3, OFTEN_MS)):
        client, share = draw.upto(1, clients), draw.random.random()
        if share < 0.7:
            ops.append(_ask(at, client, _resize(draw)))
        elif share < 0.78:
            ops.append(_ask(at, client, *(_resize(draw) for _ in range(draw.upto(2, 3)))))
        elif share < 0.86:
            ops.append(_ask(at, client, Step("get", _quota(draw.among(limited), _STATS))))
        elif share < 0.9:
            ops += [Leave(at, client), _connect(draw, at + 10, client)]
        elif share < 0.94:
            ops.append(_connect(draw, at, client))
        elif share < 0.97:
            ops.append(_ask(at, 1, Step("set", _quota(draw.among(limited), _LIMITS), limits=draw.among(LIMITS))))
        elif share < 0.985:
            path = draw.among(limited)
            ops += [_ask(at, 1, step) for step in (*_unset_quota(draw, path), *_set_quota(draw, path))]
        else:
            ops += [_ask(at, 1, step) for step in _unset_quota(draw, draw.among(limited))]
    return ops


def _resize(draw: Draw) -> Step:
    share, path = draw.random.random(), draw.among(("/a/x", "/a/y", "/a/x/z", "/b/x"))
    if share < 0.35:
        mode = draw.among(("", "", "ephemeral", "container"))
        return Step("create", path, mode=mode, size=draw.upto(0, 60))
    if share < 0.5:
        mode = draw.among(("sequential", "ephemeral sequential"))
        return Step("create", "/a/s-", mode=mode, size=draw.upto(0, 40))
    if share < 0.8:
        return Step("set", draw.among(("/a", path)), size=draw.upto(0, 60))
    return Step("delete", path)


# -- the table -------------------------------------------------------------------------------------------

SNAPSHOTS: Final[Ranges] = {
    **TICK, "snapshot_every": Short(3, 20), "window_entries": Upto(2, 6), "log_sync_entries_max": Upto(0, 3),
}  # fmt: skip
"""Settings with which a server that was away briefly needs a snapshot."""
_profile: Final = partial(Profile, machine="store")

# fmt: off
PROFILES: Final = (
    _profile("clients-of-lagging-server", "clients are connected to a server that catches up by a snapshot",
             follower_cut_off, (300, 700), watchers, {**NO_LOG_SYNC, **TICK}),
    _profile("leader-crash-under-writes",
             "the leader crashes while clients of all servers write, and the next leader has some of its proposals",
             leader_fails, (250, 500), writers, TICK, {**QUICK, **fsync((500, 4_000), (5_000, 20_000))}),
    _profile("link-replaced-under-writes", "links break and are replaced before the leader has processed the requests that arrived on them",
             links_replaced, (400, 800), writers,
             DAMPED, {**QUICK, **fsync((1_000, 2_000), (3_000, 5_000)), "break_ms_max": Upto(1, 20)}),
    _profile("syncs-across-election", "clients wait for syncs across a change of the leader",
             leader_fails, (400, 700), syncs, DAMPED),
    _profile("ephemerals-at-close", "clients delete and recreate a client's ephemeral nodes at the moment of its close",
             leader_fails, (900, 1_500), owners_close, TICK, {**QUICK, **fsync((2_000, 8_000), (10_000, 30_000))}),
    _profile("acls", "users create nodes with ACLs, change the ACLs, and try operations that these forbid",
             leader_fails, (600, 1_200), users_and_acls, SNAPSHOTS),
    _profile("containers-and-ttl", "containers lose their last child, and TTL nodes expire, just when a client adds a child or writes",
             leader_fails, (900, 1_500), containers_and_ttl, TICK, {**QUICK, **fsync((2_000, 8_000), (10_000, 40_000))}),
    _profile("quotas",
             "clients write below a node with quotas, which grows and shrinks, while servers catch up by snapshots",
             leader_fails, (600, 1_200), writes_below_quota, SNAPSHOTS),
    _profile("sessions-of-deposed-leader",
             "a leader is cut off, deposed and reconnected, while its clients continue at other servers",
             leader_cut_off, (1_500, 2_000), short_sessions),
    _profile("half-open-connections", "clients reconnect before the server has noticed the end of their last connection",
             ops=early_reconnects),
)
# fmt: on
