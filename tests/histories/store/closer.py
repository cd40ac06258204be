"""Special cases: unknown ACLs, parts of multis, and lost calls."""

from __future__ import annotations

from harness.checkers.store import image, log, watches, writes
from harness.history import Change, Jump, Reply, Request, SessionEvent
from tests.histories.history_builder import HistoryBuilder
from tests.histories.store.example import legal_case, stat, violates

PRIVATE = "u1:rwcda"

# -- unknown ACLs --------------------------------------------------------------------------------------


@legal_case
def unknown_acl_allows_any_events_and_refusals(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create_for(ann, "/x", acl="?")
    t.respond(t.invoke(ann, Request("getacl", "/x")), Reply(zxid=t.zxid, acl="u7:r"))
    t.get(bob, "/x", b"", watch="once")
    t.set(ann, "/x", b"1", 1)
    t.create(ann, "/y")
    t.refuse(bob, Request("set", "/x", b"2"), "NO_AUTH")
    parts = Request("set", "/x", b"2"), Request("create", "/z", b"")
    t.refuse(bob, Request("multi", parts=parts), "NO_AUTH", "RUNTIME_INCONSISTENCY")
    t.sync(bob)


@legal_case
def getacl_shows_an_unknown_acl(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.respond(t.invoke(ann, Request("getacl", "/x")), Reply(zxid=t.zxid, acl="?"))


@violates(writes.REFUSED)
def unknown_acl_does_not_explain_another_error(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create_for(ann, "/x", acl="?")
    t.refuse(ann, Request("set", "/x", b"2"), "NO_NODE")


@legal_case
def lost_write_has_an_unknown_acl(t: HistoryBuilder) -> None:
    ann = t.client(1)
    for path, asked, made in (("/x", "?", "u1:r"), ("/y", "u1:r", "?")):
        call = t.invoke(ann, Request("create", path, b"", acl=asked))
        t.commit(ann, Change(0, 0, "create", path, b"", acl=made))
        t.lose(call)


@violates(log.FOLLOWS)
def acl_version_skips_a_number(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    call = t.invoke(ann, Request("setacl", "/x", acl="world:r"))
    t.respond(call, Reply(zxid=t.commit(ann, Change(0, 0, "setacl", "/x", version=7, acl="world:r"))))


# -- parts of a multi ----------------------------------------------------------------------------------


@legal_case
def multi_sets_two_acls(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    parts = [Request("setacl", "/x", version=version, acl="world:rwcda") for version in (0, 1)]
    call = t.invoke(ann, Request("multi", parts=(*parts, Request("set", "/x", b"1"))))
    lists = [Change(0, 0, "setacl", "/x", version=version) for version in (1, 2)]
    zxid = t.commit(ann, *lists, Change(0, 0, "set", "/x", b"1", 1))
    t.respond(call, Reply(zxid=zxid, parts=(Reply(), Reply(), Reply())))


@legal_case
def multi_is_refused_with_an_error_outside_the_tree(t: HistoryBuilder) -> None:
    ann = t.client(1)
    parts = Request("create", "/x", b""), Request("create", "/y", b"")
    t.refuse(ann, Request("multi", parts=parts), "SESSION_MOVED", "RUNTIME_INCONSISTENCY")
    t.refuse(ann, Request("multi", parts=parts), "", "SESSION_MOVED")


@legal_case
def multi_with_an_illegal_part(t: HistoryBuilder) -> None:
    ann = t.client(1)
    parts = Request("create", "/x", b""), Request("sync", "/x")
    t.refuse(ann, Request("multi", parts=parts), "", "NO_NODE")


@legal_case
def invalid_path_is_refused(t: HistoryBuilder) -> None:
    t.refuse(t.client(1), Request("create", "nothing", b""), "BAD_ARGUMENTS")


@violates(log.FOLLOWS)
def missing_node_is_set_and_shown(t: HistoryBuilder) -> None:
    t.set(t.client(1), "/none", b"1", 1, stat=stat(2, 2, 1, 1))


@violates(image.INVARIANT)
def read_shows_the_state_of_another_node_within_a_multi(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.create(ann, "/y")
    parts = tuple(Request("set", "/y", data) for data in (b"1", b"2"))
    call = t.invoke(ann, Request("multi", parts=parts))
    changes = Change(0, 0, "set", "/y", b"1", 1), Change(0, 0, "set", "/y", b"2", 2)
    t.respond(call, Reply(zxid=t.commit(ann, *changes), parts=(Reply(), Reply())))
    t.get(ann, "/x", b"1")


@violates(image.INVARIANT)
def read_shows_an_old_result_of_a_multi(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    parts = tuple(Request("set", "/x", data) for data in (b"1", b"2"))
    call = t.invoke(ann, Request("multi", parts=parts))
    changes = Change(0, 0, "set", "/x", b"1", 1), Change(0, 0, "set", "/x", b"2", 2)
    t.respond(call, Reply(zxid=t.commit(ann, *changes), parts=(Reply(), Reply())))
    t.set(ann, "/x", b"3", 3)
    t.get(ann, "/x", b"2")


@violates(image.INVARIANT)
def read_shows_a_state_that_never_existed(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    parts = tuple(Request("set", "/x", data) for data in (b"1", b"2"))
    call = t.invoke(ann, Request("multi", parts=parts))
    changes = Change(0, 0, "set", "/x", b"1", 1), Change(0, 0, "set", "/x", b"2", 2)
    t.respond(call, Reply(zxid=t.commit(ann, *changes), parts=(Reply(), Reply())))
    t.get(ann, "/x", b"7")


# -- lost calls ----------------------------------------------------------------------------------------


@legal_case
def first_of_two_lost_writes_was_carried_out(t: HistoryBuilder) -> None:
    """The call was invoked before a call that took effect later."""
    ann = t.client(1)
    lost = [t.invoke(ann, Request("create", "/x", b""))]
    answered = t.invoke(ann, Request("create", "/y", b""))
    lost.append(t.invoke(ann, Request("create", "/x", b"")))
    t.commit(ann, Change(0, 0, "create", "/x", b""))
    t.respond(answered, Reply(zxid=t.commit(ann, Change(0, 0, "create", "/y", b"")), path="/y"))
    for call in lost:
        t.lose(call)


@legal_case
def one_of_two_lost_writes_was_possible(t: HistoryBuilder) -> None:
    """The other call checks a missing node, so it was refused."""
    ann = t.client(1)
    checked = Request("multi", parts=(Request("create", "/x", b""), Request("check", "/none")))
    lost = [t.invoke(ann, checked), t.invoke(ann, Request("create", "/x", b""))]
    t.commit(ann, Change(0, 0, "create", "/x", b""))
    for call in lost:
        t.lose(call)


@legal_case
def one_of_two_lost_writes_is_outside_the_model(t: HistoryBuilder) -> None:
    ann = t.client(1)
    parts = Request("create", "/x", b""), Request("check", "/zookeeper/config")
    lost = [t.invoke(ann, Request("multi", parts=parts)), t.invoke(ann, Request("create", "/x", b""))]
    t.commit(ann, Change(0, 0, "create", "/x", b""))
    for call in lost:
        t.lose(call)


@legal_case
def servers_write_their_own_nodes(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.commit(None, Change(0, 0, "create", "/zookeeper/quota/a/b", b""))
    t.create(ann, "/x")


@legal_case
def refused_sync_guarantees_nothing(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    old = t.zxid
    t.create(ann, "/x")
    t.respond(t.invoke(bob, Request("sync", "/")), Reply("SESSION_MOVED", old))


# -- watches, step by step -----------------------------------------------------------------------------


@legal_case
def earlier_parts_of_a_multi_decide_the_readers_of_events(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create_for(ann, "/y", acl=PRIVATE, user="u1")
    t.create(ann, "/z")
    for path in ("/x", "/y", "/z"):
        t.watch(bob, path, "persistent")
    for asked, made in (
        (Request("create", "/x", b"", acl=PRIVATE, user="u1"), Change(0, 0, "create", "/x", b"", acl=PRIVATE)),
        (Request("delete", "/y", user="u1"), Change(0, 0, "delete", "/y")),
        (Request("setacl", "/z", acl=PRIVATE, user="u1"), Change(0, 0, "setacl", "/z", version=1, acl=PRIVATE)),
    ):
        again = asked.op == "delete"
        path = asked.path
        parts = (asked, *([Request("create", path, b"")] if again else []), Request("set", path, b"1", user="u1"))
        call = t.invoke(ann, Request("multi", parts=parts))
        anew = [Change(0, 0, "create", path, b"")] if again else []
        zxid = t.commit(ann, made, *anew, Change(0, 0, "set", path, b"1", 1))
        t.respond(
            call, Reply(zxid=zxid, parts=tuple(Reply(path=path if each.op == "create" else "") for each in parts))
        )
        if again:
            t.fire(bob, "created", path)
            t.fire(bob, "data", path)
    t.sync(bob)


@legal_case
def two_nodes_are_deleted_by_a_jump(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2, server=2)
    for path in ("/x", "/y", "/z"):
        t.create(ann, path)
        t.get(bob, path, b"", watch="once")
    for path in ("/x", "/y", "/z"):
        t.delete(ann, path)
    assert t.jumps is not None
    t.jumps.append(Jump(2, t.zxid))
    for path in ("/x", "/y", "/z"):
        t.fire(bob, "deleted", path)
    t.sync(bob)


def _back_with(t: HistoryBuilder, *watched: tuple[str, str]) -> None:
    """Bob had two watches, reconnects, and sends these."""
    ann, bob = t.client(1), t.client(2)
    for path in ("/x", "/y"):
        t.create(ann, path)
        t.get(bob, path, b"", watch="once")
    t.session_event(bob, "disconnected")
    t.commit(bob, Change(0, 0, "attach"))
    t.events.append(SessionEvent(t.tick(), bob.client, bob.session, "connected", 1, 4_000, watched))
    t.sync(bob)
    t.set(ann, "/y", b"1", 1)
    t.set(ann, "/x", b"1", 1)
    t.fire(bob, "data", "/x")
    t.sync(bob)


@legal_case
def reconnected_client_has_fewer_watches(t: HistoryBuilder) -> None:
    _back_with(t, ("data", "/x"))


@violates(watches.MISSED)
def reconnected_client_misses_one_of_two_events(t: HistoryBuilder) -> None:
    _back_with(t, ("data", "/x"), ("data", "/y"))


@violates(watches.UNEXPECTED)
def reconnected_client_has_no_watches(t: HistoryBuilder) -> None:
    _back_with(t)


@legal_case
def event_shows_as_much_as_a_reply(t: HistoryBuilder) -> None:
    """The zxid that it had seen at the disconnection counts: no event is repeated."""
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.create(ann, "/y")
    t.watch(bob, "/y", "persistent")
    t.get(bob, "/x", b"", watch="once")
    t.set(ann, "/x", b"1", 1)
    t.set(ann, "/y", b"1", 1)
    t.fire(bob, "data", "/x", t.zxid - 1)
    t.fire(bob, "data", "/y")
    t.back(bob)
    t.set(ann, "/y", b"2", 2)
    t.fire(bob, "data", "/y")
    t.sync(bob)


@violates(watches.UNEXPECTED)
def change_shown_by_an_event_is_not_reported_after_reconnection(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.watch(bob, "/x", "persistent")
    t.children(bob, "/x", watch="once")
    t.create(ann, "/x/y")
    t.fire(bob, "children", "/x")
    t.children(bob, "/x", "y", zxid=t.zxid, watch="once")
    t.set(ann, "/x", b"1", 1)
    t.fire(bob, "data", "/x")
    t.back(bob)
    t.fire(bob, "data", "/x", -1)
