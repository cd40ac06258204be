"""What is seen only by who looks closely: lists that nobody can say, parts of multis, and calls that are lost."""

from __future__ import annotations

from harness.checkers.store import image, log, watches, writes
from harness.history import Change, Jump, Reply, Request, SessionEvent
from tests.histories.history_builder import HistoryBuilder
from tests.histories.store.example import legal_case, stat, violates

PRIVATE = "u1:rwcda"

# -- lists that cannot be said in words ----------------------------------------------------------------


@legal_case
def of_a_list_that_nobody_can_say_nobody_is_told_and_all_are_refused(t: HistoryBuilder) -> None:
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
def a_list_is_told_that_nobody_can_say(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.respond(t.invoke(ann, Request("getacl", "/x")), Reply(zxid=t.zxid, acl="?"))


@violates(writes.REFUSED)
def a_list_that_nobody_can_say_has_no_say_in_it(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create_for(ann, "/x", acl="?")
    t.refuse(ann, Request("set", "/x", b"2"), "NO_NODE")


@legal_case
def what_was_lost_had_a_list_that_nobody_can_say(t: HistoryBuilder) -> None:
    ann = t.client(1)
    for path, asked, made in (("/x", "?", "u1:r"), ("/y", "u1:r", "?")):
        call = t.invoke(ann, Request("create", path, b"", acl=asked))
        t.commit(ann, Change(0, 0, "create", path, b"", acl=made))
        t.lose(call)


@violates(log.FOLLOWS)
def the_version_of_a_list_leaps(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    call = t.invoke(ann, Request("setacl", "/x", acl="world:r"))
    t.respond(call, Reply(zxid=t.commit(ann, Change(0, 0, "setacl", "/x", version=7, acl="world:r"))))


# -- parts of a multi ----------------------------------------------------------------------------------


@legal_case
def one_list_after_the_other_in_a_multi(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    parts = [Request("setacl", "/x", version=version, acl="world:rwcda") for version in (0, 1)]
    call = t.invoke(ann, Request("multi", parts=(*parts, Request("set", "/x", b"1"))))
    lists = [Change(0, 0, "setacl", "/x", version=version) for version in (1, 2)]
    zxid = t.commit(ann, *lists, Change(0, 0, "set", "/x", b"1", 1))
    t.respond(call, Reply(zxid=zxid, parts=(Reply(), Reply(), Reply())))


@legal_case
def a_multi_is_refused_for_what_no_tree_knows(t: HistoryBuilder) -> None:
    ann = t.client(1)
    parts = Request("create", "/x", b""), Request("create", "/y", b"")
    t.refuse(ann, Request("multi", parts=parts), "SESSION_MOVED", "RUNTIME_INCONSISTENCY")
    t.refuse(ann, Request("multi", parts=parts), "", "SESSION_MOVED")


@legal_case
def a_multi_with_a_part_that_belongs_into_none(t: HistoryBuilder) -> None:
    ann = t.client(1)
    parts = Request("create", "/x", b""), Request("sync", "/x")
    t.refuse(ann, Request("multi", parts=parts), "", "NO_NODE")


@legal_case
def what_is_no_path_is_refused(t: HistoryBuilder) -> None:
    t.refuse(t.client(1), Request("create", "nothing", b""), "BAD_ARGUMENTS")


@violates(log.FOLLOWS)
def what_is_not_there_is_set_and_shown(t: HistoryBuilder) -> None:
    t.set(t.client(1), "/none", b"1", 1, stat=stat(2, 2, 1, 1))


@violates(image.INVARIANT)
def a_read_sees_what_another_node_was_in_the_midst_of_a_multi(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.create(ann, "/y")
    parts = tuple(Request("set", "/y", data) for data in (b"1", b"2"))
    call = t.invoke(ann, Request("multi", parts=parts))
    changes = Change(0, 0, "set", "/y", b"1", 1), Change(0, 0, "set", "/y", b"2", 2)
    t.respond(call, Reply(zxid=t.commit(ann, *changes), parts=(Reply(), Reply())))
    t.get(ann, "/x", b"1")


@violates(image.INVARIANT)
def a_read_sees_what_a_multi_made_and_is_long_past(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    parts = tuple(Request("set", "/x", data) for data in (b"1", b"2"))
    call = t.invoke(ann, Request("multi", parts=parts))
    changes = Change(0, 0, "set", "/x", b"1", 1), Change(0, 0, "set", "/x", b"2", 2)
    t.respond(call, Reply(zxid=t.commit(ann, *changes), parts=(Reply(), Reply())))
    t.set(ann, "/x", b"3", 3)
    t.get(ann, "/x", b"2")


@violates(image.INVARIANT)
def a_read_sees_what_it_was_at_no_time_and_not_in_the_midst_of_a_multi(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    parts = tuple(Request("set", "/x", data) for data in (b"1", b"2"))
    call = t.invoke(ann, Request("multi", parts=parts))
    changes = Change(0, 0, "set", "/x", b"1", 1), Change(0, 0, "set", "/x", b"2", 2)
    t.respond(call, Reply(zxid=t.commit(ann, *changes), parts=(Reply(), Reply())))
    t.get(ann, "/x", b"7")


# -- calls that are lost -------------------------------------------------------------------------------


@legal_case
def of_two_that_are_lost_the_first_was_carried_out(t: HistoryBuilder) -> None:
    """It was asked before that which took effect behind it."""
    ann = t.client(1)
    lost = [t.invoke(ann, Request("create", "/x", b""))]
    answered = t.invoke(ann, Request("create", "/y", b""))
    lost.append(t.invoke(ann, Request("create", "/x", b"")))
    t.commit(ann, Change(0, 0, "create", "/x", b""))
    t.respond(answered, Reply(zxid=t.commit(ann, Change(0, 0, "create", "/y", b"")), path="/y"))
    for call in lost:
        t.lose(call)


@legal_case
def of_two_that_are_lost_one_could_be_done(t: HistoryBuilder) -> None:
    """The other one checks what is not there, and so that it was refused."""
    ann = t.client(1)
    checked = Request("multi", parts=(Request("create", "/x", b""), Request("check", "/none")))
    lost = [t.invoke(ann, checked), t.invoke(ann, Request("create", "/x", b""))]
    t.commit(ann, Change(0, 0, "create", "/x", b""))
    for call in lost:
        t.lose(call)


@legal_case
def of_two_that_are_lost_one_asks_for_what_no_model_has(t: HistoryBuilder) -> None:
    ann = t.client(1)
    parts = Request("create", "/x", b""), Request("check", "/zookeeper/config")
    lost = [t.invoke(ann, Request("multi", parts=parts)), t.invoke(ann, Request("create", "/x", b""))]
    t.commit(ann, Change(0, 0, "create", "/x", b""))
    for call in lost:
        t.lose(call)


@legal_case
def servers_write_what_is_their_own(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.commit(None, Change(0, 0, "create", "/zookeeper/quota/a/b", b""))
    t.create(ann, "/x")


@legal_case
def a_sync_that_was_refused_reached_nothing(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    old = t.zxid
    t.create(ann, "/x")
    t.respond(t.invoke(bob, Request("sync", "/")), Reply("SESSION_MOVED", old))


# -- watches, step by step -----------------------------------------------------------------------------


@legal_case
def who_may_hear_of_a_part_is_decided_by_the_parts_before_it(t: HistoryBuilder) -> None:
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
def two_are_gone_where_a_server_jumped(t: HistoryBuilder) -> None:
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
    """Bob watched two, is back, and names these."""
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
def who_is_back_watches_less(t: HistoryBuilder) -> None:
    _back_with(t, ("data", "/x"))


@violates(watches.MISSED)
def who_is_back_watches_both_and_is_told_of_one(t: HistoryBuilder) -> None:
    _back_with(t, ("data", "/x"), ("data", "/y"))


@violates(watches.UNEXPECTED)
def who_is_back_watches_nothing_any_more(t: HistoryBuilder) -> None:
    _back_with(t)


@legal_case
def an_event_shows_as_much_as_a_reply(t: HistoryBuilder) -> None:
    """What it had seen of when it went counts: nothing is told again."""
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
def what_an_event_has_shown_is_not_told_after_a_return(t: HistoryBuilder) -> None:
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
