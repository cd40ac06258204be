"""Every change, every kind of watch."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.store.support import ALICE, BOB, Client, Leader, leader
from zab.store.acl import OPEN
from zab.store.error_codes import ErrorCode
from zab.store.operations import Op
from zab.store.server_watches import LONG_PATH, EventType, ServerWatches, WatchKind, WatchMode
from zab.store.store import Store

CREATED, DELETED, CHANGED, CHILDREN = (
    EventType.CREATED,
    EventType.DELETED,
    EventType.DATA_CHANGED,
    EventType.CHILDREN_CHANGED,
)
JOE = ("digest", "joe:secret")


@pytest.fixture
def it() -> Leader:
    it = leader()
    for path in ("/p", "/p/n", "/p/n/c"):
        it.create(path)
    return it


def watching(it: Leader, kind: str, path: str) -> Client:
    client = Client()
    reads = it.store.reads
    match kind:
        case "data":
            assert reads.get_data(client, path, True)[0] == 0
        case "exists":
            reads.exists(client, path, True)
        case "child":
            assert reads.get_children(client, path, True)[0] == 0
        case "persistent":
            reads.add_watch(client, path, WatchMode.PERSISTENT)
        case "recursive":
            reads.add_watch(client, path, WatchMode.RECURSIVE)
        case _:
            raise AssertionError(kind)
    return client


def change(it: Leader, what: str) -> None:
    match what:
        case "create child":
            it.create("/p/n/new")
        case "delete":
            it.delete("/p/n/c")
            it.delete("/p/n")
        case "set":
            it.set("/p/n", b"!")
        case "set acl":
            assert it.error(Op.SET_ACL, "/p/n", OPEN, -1) == 0
        case "set child":
            it.set("/p/n/c", b"!")
        case "create sibling":
            it.create("/p/m")
        case _:
            raise AssertionError(what)


N, C = "/p/n", "/p/n/c"

HEARD_AT_N = {
    ("create child", "data"): [],
    ("create child", "exists"): [],
    ("create child", "child"): [(CHILDREN, N)],
    ("create child", "persistent"): [(CHILDREN, N)],
    ("create child", "recursive"): [(CREATED, "/p/n/new")],
    ("delete", "data"): [(DELETED, N)],
    ("delete", "exists"): [(DELETED, N)],
    ("delete", "child"): [(CHILDREN, N)],
    ("delete", "persistent"): [(CHILDREN, N), (DELETED, N)],
    ("delete", "recursive"): [(DELETED, C), (DELETED, N)],
    ("set", "data"): [(CHANGED, N)],
    ("set", "exists"): [(CHANGED, N)],
    ("set", "child"): [],
    ("set", "persistent"): [(CHANGED, N)],
    ("set", "recursive"): [(CHANGED, N)],
    ("set acl", "data"): [],
    ("set acl", "child"): [],
    ("set acl", "persistent"): [],
    ("set acl", "recursive"): [],
    ("set child", "data"): [],
    ("set child", "child"): [],
    ("set child", "persistent"): [],
    ("set child", "recursive"): [(CHANGED, C)],
    ("create sibling", "data"): [],
    ("create sibling", "child"): [],
    ("create sibling", "persistent"): [],
    ("create sibling", "recursive"): [],
}


@pytest.mark.parametrize(("what", "kind"), HEARD_AT_N, ids=lambda value: str(value))
@pytest.mark.mechanism(122)
def test_events_of_each_change(it: Leader, what: str, kind: str) -> None:
    client = watching(it, kind, N)
    change(it, what)
    assert client.heard == HEARD_AT_N[what, kind]


@pytest.mark.parametrize("kind", ["data", "exists", "child", "persistent", "recursive"])
@pytest.mark.mechanism(122)
def test_once_or_for_ever(it: Leader, kind: str) -> None:
    client = watching(it, kind, N)
    for _ in range(2):
        if kind == "child":
            it.create("/p/n/x")
            it.delete("/p/n/x")
        else:
            it.set(N, b"!")
    times = len(client.heard)
    assert times == (2 if kind in ("persistent", "recursive") else 1)


def test_a_node_that_is_not_there_yet(it: Leader) -> None:
    clients = [watching(it, kind, "/p/new") for kind in ("exists", "persistent", "recursive")]
    it.create("/p/new")
    assert [client.heard for client in clients] == [[(CREATED, "/p/new")]] * 3
    it.set("/p/new", b"")
    assert [client.heard for client in clients] == [[], [(CHANGED, "/p/new")], [(CHANGED, "/p/new")]]


def test_a_failed_read_leaves_no_watch(it: Leader) -> None:
    client, reads = Client(), it.store.reads
    assert reads.get_data(client, "/gone", True)[0] == -101
    assert reads.get_children(client, "/gone", True)[0] == -101
    assert it.store.watches.counts == (0, 0, 0)


def test_on_deletion_both_tables_are_cleared_and_one_event_is_sent(it: Leader) -> None:
    client = watching(it, "data", C)
    it.store.reads.get_children(client, C, True)
    it.delete(C)
    assert client.heard == [(DELETED, C)]
    assert it.store.watches.counts == (0, 0, 0)
    it.create(C)
    it.create(f"{C}/x")
    assert client.heard == []


def test_a_fired_data_watch_leaves_the_child_watch_alone(it: Leader) -> None:
    client = watching(it, "data", N)
    it.store.reads.get_children(client, N, True)
    it.set(N, b"!")
    it.create("/p/n/x")
    assert client.heard == [(CHANGED, N), (CHILDREN, N)]


def test_one_event_for_one_change_however_many_modes(it: Leader) -> None:
    client = watching(it, "data", N)
    for mode in WatchMode:
        for _ in range(2):
            it.store.reads.add_watch(client, N, mode)
    it.store.reads.add_watch(client, "/", WatchMode.RECURSIVE)
    it.store.reads.exists(client, N, True)
    it.set(N, b"!")
    assert client.heard == [(CHANGED, N)]


def test_the_root_may_be_watched_whole(it: Leader) -> None:
    client = watching(it, "recursive", "/")
    neighbour = watching(it, "recursive", "/p/nn")
    it.set(C, b"!")
    it.create("/new")
    assert client.heard == [(CHANGED, C), (CREATED, "/new")]
    assert neighbour.heard == [], "a prefix of the text is not an ancestor"


def test_events_of_a_multi_come_in_its_order_and_with_its_zxid(it: Leader) -> None:
    client = watching(it, "recursive", "/p")
    ops = ((Op.SET_DATA, (N, b"", -1)), (Op.CREATE, ("/p/x", b"", OPEN, 0)), (Op.DELETE, (C, -1)))
    it.prepare(Op.MULTI, *ops)
    zxid = it.zxid
    assert not client.events, "nothing before it is applied"
    it.settle()
    assert client.events == [(CHANGED, N, zxid), (CREATED, "/p/x", zxid), (DELETED, C, zxid)]
    client.events.clear()
    assert it.codes((Op.SET_DATA, (N, b"", -1)), (Op.DELETE, ("/gone", -1))) == [0, -101]
    assert client.heard == []


def test_closing_a_session_is_deleting_its_nodes(it: Leader) -> None:
    it.create("/p/e", flags=1, session=BOB)
    clients = [watching(it, kind, path) for kind, path in (("data", "/p/e"), ("child", "/p"), ("persistent", "/p"))]
    it.ask(Op.CLOSE_SESSION, session=BOB)
    assert [client.heard for client in clients] == [[(DELETED, "/p/e")], [(CHILDREN, "/p")], [(CHILDREN, "/p")]]


def test_thousand_watchers_get_their_event_in_one_step(it: Leader) -> None:
    calls = []
    it.store.watches.deliver = lambda watchers, event, path, zxid: calls.append((len(watchers), event, path))
    for _ in range(1000):
        watching(it, "data", N)
    it.set(N, b"!")
    assert calls == [(1000, CHANGED, N)]


# -- who may hear ----------------------------------------------------------------------------------------


def test_event_needs_read_permission(it: Leader) -> None:
    stranger, joe = watching(it, "recursive", "/"), Client(identities=(JOE,))
    it.store.reads.add_watch(joe, "/", WatchMode.RECURSIVE)
    it.create("/p/closed", acl=((31, *JOE),))
    it.set("/p/closed", b"!", identities=(JOE,))
    it.delete("/p/closed")
    assert stranger.heard == []
    assert joe.heard == [(CREATED, "/p/closed"), (CHANGED, "/p/closed"), (DELETED, "/p/closed")]


def test_children_event_needs_read_permission_on_the_parent(it: Leader) -> None:
    stranger = watching(it, "child", "/p")
    late = watching(it, "child", N)
    it.create("/p/closed", acl=((31, *JOE),))
    assert stranger.heard == [(CHILDREN, "/p")]
    it.ask(Op.SET_ACL, N, ((30, "world", "anyone"), (1, *JOE)), -1)
    it.create("/p/n/x")
    it.ask(Op.SET_ACL, N, OPEN, -1, identities=(JOE,))
    it.create("/p/n/y")
    assert late.heard == [], "withheld, and used up"


# -- removal -----------------------------------------------------------------------------------------------

SETS = {
    "data": {WatchKind.DATA, WatchKind.ANY},
    "child": {WatchKind.CHILDREN, WatchKind.ANY},
    "persistent": {WatchKind.PERSISTENT, WatchKind.ANY},
    "recursive": {WatchKind.RECURSIVE, WatchKind.ANY},
}


@pytest.mark.parametrize("kind", SETS)
@pytest.mark.parametrize("removed", list(WatchKind))
def test_removal_by_kind(it: Leader, kind: str, removed: WatchKind) -> None:
    client, bystander = watching(it, kind, N), watching(it, kind, N)
    reads = it.store.reads
    code = 0 if removed in SETS[kind] else -121
    assert reads.check_watches(client, N, removed)[0] == code
    assert reads.remove_watches(client, N, removed)[0] == code
    assert reads.remove_watches(client, "/p", removed)[0] == -121
    it.set(N, b"!")
    it.create("/p/n/x")
    assert bool(client.heard) == (code != 0)
    assert bystander.heard
    assert client.heard == [], "and nobody is told of a removal"


def test_removing_one_mode_leaves_the_others(it: Leader) -> None:
    client = watching(it, "persistent", N)
    it.store.reads.get_data(client, N, True)
    assert it.store.reads.remove_watches(client, N, WatchKind.DATA) == (0, None)
    it.set(N, b"!")
    assert client.heard == [(CHANGED, N)]


def test_nonsense(it: Leader) -> None:
    client, reads = Client(), it.store.reads
    assert reads.add_watch(client, N, 2)[0] == -5
    assert reads.remove_watches(client, N, 0)[0] == -5
    assert reads.check_watches(client, N, 6)[0] == -5


def test_a_connection_takes_its_watches_along(it: Leader) -> None:
    client = watching(it, "recursive", "/")
    other = watching(it, "data", N)
    it.store.reads.add_watch(client, N, WatchMode.PERSISTENT)
    assert it.store.watches.counts == (4, 2, 2)
    it.store.watches.drop(client)
    assert it.store.watches.counts == (1, 1, 1)
    it.set(C, b"")
    it.set(N, b"")
    assert client.heard == []
    assert other.heard == [(CHANGED, N)]
    assert it.store.watches.counts == (0, 0, 0)


# -- re-registration ---------------------------------------------------------------------------------------


def test_set_watches_returns_events_missed_while_disconnected(it: Leader) -> None:
    for path in ("/same", "/set", "/parent", "/quiet", "/gone", "/gone2"):
        it.create(path)
    seen = it.zxid
    it.set("/set", b"!")
    it.create("/parent/x")
    it.delete("/gone")
    it.delete("/gone2")
    it.create("/came")
    client = Client()
    answer = it.store.reads.set_watches(
        client, seen, ["/same", "/set", "/gone"], ["/still-not", "/came"], ["/quiet", "/parent", "/gone2"]
    )
    assert answer == (0, None)
    assert {event[2] for event in client.events} == {-1}
    assert client.heard == [
        (CHANGED, "/set"), (DELETED, "/gone"), (CREATED, "/came"), (CHILDREN, "/parent"), (DELETED, "/gone2"),
    ]  # fmt: skip
    it.set("/set", b"")
    it.create("/parent/y")
    it.create("/gone")
    assert client.heard == [], "what was told is not watched any more"
    it.set("/same", b"")
    it.create("/still-not")
    it.create("/quiet/x")
    assert client.heard == [(CHANGED, "/same"), (CREATED, "/still-not"), (CHILDREN, "/quiet")]


def test_persistent_watches_are_set_again_without_events(it: Leader) -> None:
    client = Client()
    it.store.reads.read(Op.SET_WATCHES2, (0, (), (), (), ("/p",), ("/p/n",)), client)
    assert client.heard == []
    it.create("/p/x")
    it.set(C, b"")
    assert client.heard == [(CHILDREN, "/p"), (CHANGED, C)]


def test_missed_events_respect_acls(it: Leader) -> None:
    it.create("/closed", acl=((31, *JOE),))
    client, joe = Client(), Client(identities=(JOE,))
    for each in (client, joe):
        it.store.reads.read(Op.SET_WATCHES, (0, ("/closed",), ("/closed",), ("/closed",)), each)
    assert client.heard == []
    assert joe.heard == [(CHANGED, "/closed"), (CREATED, "/closed"), (CHILDREN, "/closed")]


# -- a state that was replaced ---------------------------------------------------------------------------


def test_watcher_gets_missed_events_after_a_restore(it: Leader) -> None:
    behind = Store(deliver=it.store.watches.deliver)
    behind.restore(list(it.store.snapshot()))
    other = Leader(store=behind)
    clients = {
        name: watching(other, kind, path)
        for name, kind, path in (
            ("data", "data", N), ("same", "data", "/p/n/c"), ("new", "exists", "/new"), ("child", "child", "/p"),
            ("tree", "recursive", "/p"), ("stays", "persistent", N),
        )
    }  # fmt: skip
    it.set(N, b"!")
    it.create("/new")
    it.create("/p/x")
    it.create("/p/y")
    behind.restore(list(it.store.snapshot()))
    assert not any(client.events for client in clients.values()), "not from the thread that restores"
    behind.deliver_missed()
    heard = {name: client.heard for name, client in clients.items()}
    assert heard == {
        "data": [(CHANGED, N)],
        "same": [],
        "new": [(CREATED, "/new")],
        "child": [(CHILDREN, "/p")],
        "tree": [(CHANGED, N), (CREATED, "/p/x"), (CREATED, "/p/y")],
        "stays": [(CHANGED, N)],
    }
    it.delete("/p/x")
    it.delete("/new")
    it.set("/p/n/c", b"!")
    behind.restore(list(it.store.snapshot()))
    it.create("/other")
    behind.apply(*it.log[-1])
    assert clients["same"].heard == [(CHANGED, C)], "at the next transaction at the latest"
    assert sorted(clients["tree"].heard) == [(DELETED, "/p/x"), (CHANGED, C)]
    assert clients["new"].heard == []


def test_missed_deletions_come_in_the_order_of_deletions(it: Leader) -> None:
    """Also if the watches were set in another order."""
    it.create("/p/n/c/d")
    behind = Store(deliver=it.store.watches.deliver)
    behind.restore(list(it.store.snapshot()))
    client = Client()
    for path in ("/p/n/c/d", "/p/n", "/p/n/c"):
        behind.reads.read(Op.EXISTS, (path, True), client)
    for path in ("/p/n/c/d", "/p/n/c", "/p/n"):
        it.delete(path)
    behind.restore(list(it.store.snapshot()))
    behind.deliver_missed()
    assert client.heard == [(DELETED, "/p/n/c/d"), (DELETED, "/p/n/c"), (DELETED, "/p/n")]


# -- bounds --------------------------------------------------------------------------------------------


def ask(it: Leader, client: Client, op: Op, *fields: Any) -> int:
    return it.store.reads.read(op, fields, client)[0]


@pytest.mark.parametrize("bound", ["per_watcher_max", "total_max"])
def test_a_request_for_a_watch_too_many_is_refused_and_leaves_none(it: Leader, bound: str) -> None:
    setattr(it.store.watches, bound, 4)
    client = Client()
    assert ask(it, client, Op.GET_DATA, N, True) == 0
    assert ask(it, client, Op.EXISTS, "/gone", True) == ErrorCode.NO_NODE
    assert ask(it, client, Op.GET_CHILDREN, N, True) == 0
    assert ask(it, client, Op.ADD_WATCH, C, WatchMode.PERSISTENT) == ErrorCode.QUOTA_EXCEEDED, "that would be two"
    assert ask(it, client, Op.ADD_WATCH, C, WatchMode.RECURSIVE) == 0
    assert it.store.watches.count == 4
    for op in (Op.GET_DATA, Op.EXISTS, Op.GET_CHILDREN):
        assert ask(it, client, op, "/", True) == ErrorCode.QUOTA_EXCEEDED
        assert ask(it, client, op, "/", False) == 0
    assert ask(it, client, Op.ADD_WATCH, "/", WatchMode.RECURSIVE) == ErrorCode.QUOTA_EXCEEDED
    assert ask(it, client, Op.SET_WATCHES, 0, ["/"], ["/x"], []) == ErrorCode.QUOTA_EXCEEDED
    assert it.store.watches.count == 4
    assert ask(it, client, Op.GET_DATA, N, True) == 0, "this watch is there already"
    assert ask(it, client, Op.ADD_WATCH, N, WatchMode.PERSISTENT) == 0, "and so are the entries of this one"
    expected = ErrorCode.QUOTA_EXCEEDED if bound == "total_max" else 0
    assert ask(it, Client(), Op.GET_DATA, N, True) == expected
    it.store.watches.drop(client)
    assert ask(it, client, Op.SET_WATCHES, 1 << 62, [N], ["/x"], [N]) == 0


def test_watches_of_a_connection_that_is_gone_are_removed_in_slices(it: Leader) -> None:
    client, other = Client(), Client()
    for number in range(1_000):
        ask(it, client, Op.EXISTS, f"/x{number}", True)
        ask(it, client, Op.ADD_WATCH, f"/x{number}", number % 2)
    ask(it, other, Op.EXISTS, "/x7", True)
    slices, before = 0, it.store.watches.count
    while it.store.watches.drop(client, 100):
        slices += 1
        assert 0 <= before - it.store.watches.count <= 200
        before = it.store.watches.count
    assert slices >= 10
    assert it.store.watches.counts == (1, 1, 1)
    assert it.store.watches.recursive_roots == []
    it.create("/x7")
    it.create("/x8")
    assert (client.heard, other.heard) == ([], [(CREATED, "/x7")])


def test_sessions_do_not_matter_to_watches(it: Leader) -> None:
    """Watches belong to connections."""
    first, second = Client(ALICE), Client(ALICE)
    it.store.reads.get_data(first, N, True)
    it.store.reads.get_data(second, N, True)
    it.store.watches.drop(first)
    it.set(N, b"!")
    assert (first.heard, second.heard) == ([], [(CHANGED, N)])


def test_long_paths_count_against_the_bounds() -> None:
    watches = ServerWatches(lambda *_: None)
    watches.per_watcher_max = 10
    client, other = Client(), Client()
    long = "/" + "a" * (4 * LONG_PATH)
    assert watches.watch_data(long, client)
    assert watches.watch_data(long, client), "a watch that is there already needs no room"
    assert watches.watch_children(f"{long}b", client)
    assert not watches.watch_data("/short", client)
    assert watches.watch_data("/short", other)
    assert watches.remove(long, client, WatchKind.ANY)
    assert watches.watch_data("/short", client)
    watches.drop(client)
    watches.drop(other)
    tables = (watches._data, watches._child)
    assert [(table.long, table.long_of, table.count) for table in tables] == [(0, {}, 0)] * 2
    watches.total_max = 4
    assert not watches.add(long, client, WatchMode.RECURSIVE)
