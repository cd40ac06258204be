"""What a read shows, what a write is answered, and why something is refused."""

from __future__ import annotations

from typing import Final

from harness.checkers.store import image, writes
from harness.history import Change, Reply, Request
from tests.histories.history_builder import HistoryBuilder
from tests.histories.store.example import BOTH, both, legal_case, stat, violates

# -- a read shows one state ----------------------------------------------------------------------------


@legal_case
def a_read_sees_what_its_own_session_wrote(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    t.set(ann, "/x", b"2", 1)
    t.get(ann, "/x", b"2")
    t.children(ann, "/", "zookeeper", "x")
    t.delete(ann, "/x")
    t.exists(ann, "/x", there=False)


@violates(image.INVARIANT)
def a_read_sees_what_nobody_wrote(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    t.get(ann, "/x", b"2")


@violates(image.INVARIANT)
def a_read_sees_what_was_overwritten(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    t.set(ann, "/x", b"2", 1)
    t.get(ann, "/x", b"1")


@violates(image.INVARIANT)
def a_read_sees_what_is_gone(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    t.delete(ann, "/x")
    t.exists(ann, "/x", there=True)


@violates(image.INVARIANT)
def a_read_does_not_see_what_is_there(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    t.exists(ann, "/x", there=False)


@violates(image.INVARIANT)
def a_child_is_not_seen(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    t.children(ann, "/", "zookeeper")


@violates(image.INVARIANT)
def a_state_that_nobody_committed_is_seen(t: HistoryBuilder) -> None:
    t.exists(t.client(1), "/x", there=False, zxid=9)


@legal_case
def a_stat_of_a_node(t: HistoryBuilder) -> None:
    ann = t.client(1)
    czxid = t.create(ann, "/x", b"1")
    mzxid = t.zxid + 1
    t.set(ann, "/x", b"22", 1, stat=stat(czxid, mzxid, 1, 2))
    call = t.invoke(ann, Request("exists", "/x"))
    t.respond(call, Reply(zxid=t.zxid, stat=stat(czxid, mzxid, 1, 2)))


@violates(writes.SHOWN)
def a_write_is_told_a_wrongstat(t: HistoryBuilder) -> None:
    ann = t.client(1)
    czxid = t.create(ann, "/x", b"1")
    t.set(ann, "/x", b"22", 1, stat=stat(czxid, t.zxid + 1, 2, 2))


@violates(image.INVARIANT)
def a_read_is_told_a_wrongstat(t: HistoryBuilder) -> None:
    ann = t.client(1)
    czxid = t.create(ann, "/x", b"1")
    call = t.invoke(ann, Request("exists", "/x"))
    t.respond(call, Reply(zxid=t.zxid, stat=stat(czxid, czxid, 0, 3)))


@legal_case
def reads_whose_zxid_is_not_known(t: HistoryBuilder) -> None:
    """Bob may see any state that is no older than what he has seen."""
    ann, bob = t.client(1), t.client(2, server=2)
    t.create(ann, "/x", b"1")
    t.set(ann, "/x", b"2", 1)
    t.set(ann, "/x", b"3", 2)
    t.get(bob, "/x", b"2", zxid=0)


@violates(image.INVARIANT)
def a_read_whose_zxid_is_not_known_is_older_than_what_was_seen(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2, server=2)
    t.create(ann, "/x", b"1")
    t.set(ann, "/x", b"2", 1)
    t.get(bob, "/x", b"2")
    t.get(bob, "/x", b"1", zxid=0)


@violates(image.INVARIANT)
def a_read_whose_zxid_is_not_known_sees_what_never_was(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    t.get(ann, "/x", b"7", zxid=0)


# -- multi ---------------------------------------------------------------------------------------------


@legal_case
def a_multi_is_done(t: HistoryBuilder) -> None:
    call, zxid = both(t)
    t.respond(call, Reply(zxid=zxid, parts=(Reply(path="/x"), Reply(stat=stat(zxid, zxid, 1, 1)))))


@legal_case
def a_multi_is_refused(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.refuse(ann, BOTH, "NODE_EXISTS", "RUNTIME_INCONSISTENCY")
    t.get(ann, "/x", b"")


@legal_case
def a_multi_that_only_checks(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    call = t.invoke(ann, Request("multi", parts=(Request("check", "/x", version=0),)))
    t.respond(call, Reply(zxid=t.commit(ann, Change(0, 0, "other", "/x")), parts=(Reply(),)))


@legal_case
def several_reads_at_once(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    call = t.invoke(ann, Request("multi", parts=(Request("get", "/x"), Request("children", "/y"))))
    t.respond(call, Reply(zxid=t.zxid, parts=(Reply(data=b"1"), Reply("NO_NODE"))))


@violates(image.INVARIANT)
def one_of_several_reads_is_wrong(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    call = t.invoke(ann, Request("multi", parts=(Request("get", "/x"), Request("get", "/x"))))
    t.respond(call, Reply(zxid=t.zxid, parts=(Reply(data=b"1"), Reply(data=b"2"))))


@violates(image.INVARIANT)
def one_of_several_reads_is_not_answered(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    call = t.invoke(ann, Request("multi", parts=(Request("get", "/x"), Request("get", "/x"))))
    t.respond(call, Reply(zxid=t.zxid, parts=(Reply(data=b"1"),)))


@violates(image.ATOMIC)
def half_of_a_multi_is_seen(t: HistoryBuilder) -> None:
    call, zxid = both(t)
    t.respond(call, Reply(zxid=zxid, parts=(Reply(path="/x"), Reply())))
    t.get(t.client(2), "/x", b"1")


@violates(writes.ATOMIC)
def half_of_a_multi_is_done(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, BOTH)
    t.respond(call, Reply(zxid=t.commit(ann, Change(0, 0, "create", "/x", b"1")), parts=(Reply(path="/x"), Reply())))


@violates(writes.ATOMIC)
def a_multi_was_refused_and_half_of_it_done(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    call = t.invoke(ann, Request("multi", parts=(Request("create", "/y", b""), Request("create", "/x", b""))))
    zxid = t.commit(ann, Change(0, 0, "create", "/y", b""))
    t.respond(call, Reply(zxid=zxid, parts=(Reply(), Reply("NODE_EXISTS"))))


@violates(writes.ATOMIC)
def a_part_of_a_multi_is_not_answered(t: HistoryBuilder) -> None:
    call, zxid = both(t)
    t.respond(call, Reply(zxid=zxid, parts=(Reply(path="/x"),)))


@violates(writes.REFUSED)
def a_multi_blames_the_wrong_part(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.refuse(ann, BOTH, "", "BAD_VERSION")


# -- errors --------------------------------------------------------------------------------------------


@legal_case
def every_error_has_its_reason(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.create(ann, "/x/y", mode="ephemeral")
    t.refuse(ann, Request("create", "/x", b""), "NODE_EXISTS")
    t.refuse(ann, Request("create", "/z/y", b""), "NO_NODE")
    t.refuse(ann, Request("create", "/x/y/z", b""), "NO_CHILDREN_FOR_EPHEMERALS")
    t.refuse(ann, Request("set", "/x", b"", version=7), "BAD_VERSION")
    t.refuse(ann, Request("set", "/z", b""), "NO_NODE")
    t.refuse(ann, Request("delete", "/x"), "NOT_EMPTY")
    t.refuse(ann, Request("delete", "/x", version=7), "BAD_VERSION")
    t.refuse(ann, Request("delete", "/z"), "NO_NODE")
    t.refuse(ann, Request("set", "/x", b""), "SESSION_MOVED")


@violates(writes.REFUSED)
def a_version_is_refused_that_is_right(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.refuse(ann, Request("set", "/x", b"", version=0), "BAD_VERSION")


@violates(writes.REFUSED)
def a_version_is_accepted_that_is_wrong(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.delete(ann, "/x", expected=3)


@violates(writes.REFUSED)
def the_second_reason_is_given(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.create(ann, "/x/y")
    t.refuse(ann, Request("delete", "/x", version=7), "NOT_EMPTY")


@violates(writes.SHOWN)
def a_write_is_told_another_path(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, Request("create", "/x", b""))
    t.respond(call, Reply(zxid=t.commit(ann, Change(0, 0, "create", "/x", b"")), path="/y"))


@violates(writes.SHOWN)
def something_else_was_written(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, Request("create", "/x", b"1"))
    t.respond(call, Reply(zxid=t.commit(ann, Change(0, 0, "create", "/x", b"2")), path="/x"))


@violates(writes.SHOWN)
def a_refusal_is_told_as_done(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, Request("delete", "/x"))
    t.respond(call, Reply(zxid=t.commit(ann, Change(0, 0, "error"))))


@violates(writes.SHOWN)
def what_was_done_is_told_as_refused(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, Request("create", "/x", b"1"))
    t.respond(call, Reply("NODE_EXISTS", zxid=t.commit(ann, Change(0, 0, "create", "/x", b"1"))))


TWO_PARTS: Final = Request("multi", parts=(Request("create", "/x", b""), Request("delete", "/nothing")))


@legal_case
def a_multi_that_is_refused_says_so_in_its_header_only(t: HistoryBuilder) -> None:
    """Its first part could have been done; which one was wrong is not said."""
    ann = t.client(1)
    call = t.invoke(ann, TWO_PARTS)
    t.respond(call, Reply("NO_NODE", zxid=t.commit(ann, Change(0, 0, "error"))))


@violates(writes.REFUSED)
def a_multi_that_had_to_be_done_is_refused_in_its_header(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, BOTH)
    t.respond(call, Reply("NO_NODE", zxid=t.commit(ann, Change(0, 0, "error"))))


@violates(writes.ATOMIC)
def a_multi_that_had_to_be_refused_is_done_without_answers(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, TWO_PARTS)
    made = Change(0, 0, "create", "/x", b""), Change(0, 0, "delete", "/nothing")
    t.respond(call, Reply(zxid=t.commit(ann, *made)))


@violates(writes.REFUSED)
def a_lost_multi_that_had_to_be_refused_is_done(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.lose(t.invoke(ann, TWO_PARTS))
    t.commit(ann, Change(0, 0, "create", "/x", b""), Change(0, 0, "delete", "/nothing"))


@legal_case
def a_child_is_made_in_the_same_multi_as_its_parent(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, Request("multi", parts=(Request("create", "/x", b""), Request("create", "/x/y", b""))))
    zxid = t.commit(ann, *(Change(0, 0, "create", path, b"") for path in ("/x", "/x/y")))
    t.respond(call, Reply(zxid=zxid, parts=(Reply(path="/x"), Reply(path="/x/y"))))
