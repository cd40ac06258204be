"""Replies: the state that a read shows, the effect that a write shows, and errors."""

from __future__ import annotations

from typing import Final

from harness.checkers.store import image, writes
from harness.history import Change, Reply, Request
from tests.histories.history_builder import HistoryBuilder
from tests.histories.store.example import BOTH, both, legal_case, stat, violates

# -- a read shows one state ----------------------------------------------------------------------------


@legal_case
def read_shows_the_write_of_its_session(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    t.set(ann, "/x", b"2", 1)
    t.get(ann, "/x", b"2")
    t.children(ann, "/", "zookeeper", "x")
    t.delete(ann, "/x")
    t.exists(ann, "/x", there=False)


@violates(image.INVARIANT)
def read_shows_unwritten_data(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    t.get(ann, "/x", b"2")


@violates(image.INVARIANT)
def read_shows_overwritten_data(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    t.set(ann, "/x", b"2", 1)
    t.get(ann, "/x", b"1")


@violates(image.INVARIANT)
def read_shows_a_deleted_node(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    t.delete(ann, "/x")
    t.exists(ann, "/x", there=True)


@violates(image.INVARIANT)
def read_misses_an_existing_node(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    t.exists(ann, "/x", there=False)


@violates(image.INVARIANT)
def list_of_children_lacks_a_child(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    t.children(ann, "/", "zookeeper")


@violates(image.INVARIANT)
def read_shows_an_uncommitted_zxid(t: HistoryBuilder) -> None:
    t.exists(t.client(1), "/x", there=False, zxid=9)


@legal_case
def stat_of_a_node(t: HistoryBuilder) -> None:
    ann = t.client(1)
    czxid = t.create(ann, "/x", b"1")
    mzxid = t.zxid + 1
    t.set(ann, "/x", b"22", 1, stat=stat(czxid, mzxid, 1, 2))
    call = t.invoke(ann, Request("exists", "/x"))
    t.respond(call, Reply(zxid=t.zxid, stat=stat(czxid, mzxid, 1, 2)))


@violates(writes.SHOWN)
def write_reply_has_a_wrong_stat(t: HistoryBuilder) -> None:
    ann = t.client(1)
    czxid = t.create(ann, "/x", b"1")
    t.set(ann, "/x", b"22", 1, stat=stat(czxid, t.zxid + 1, 2, 2))


@violates(image.INVARIANT)
def read_reply_has_a_wrong_stat(t: HistoryBuilder) -> None:
    ann = t.client(1)
    czxid = t.create(ann, "/x", b"1")
    call = t.invoke(ann, Request("exists", "/x"))
    t.respond(call, Reply(zxid=t.zxid, stat=stat(czxid, czxid, 0, 3)))


@legal_case
def reads_without_zxid(t: HistoryBuilder) -> None:
    """Bob may see any state that is not older than what he has seen."""
    ann, bob = t.client(1), t.client(2, server=2)
    t.create(ann, "/x", b"1")
    t.set(ann, "/x", b"2", 1)
    t.set(ann, "/x", b"3", 2)
    t.get(bob, "/x", b"2", zxid=0)


@violates(image.INVARIANT)
def read_without_zxid_is_older_than_seen_state(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2, server=2)
    t.create(ann, "/x", b"1")
    t.set(ann, "/x", b"2", 1)
    t.get(bob, "/x", b"2")
    t.get(bob, "/x", b"1", zxid=0)


@violates(image.INVARIANT)
def read_without_zxid_shows_unwritten_data(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    t.get(ann, "/x", b"7", zxid=0)


# -- multi ---------------------------------------------------------------------------------------------


@legal_case
def multi_is_carried_out(t: HistoryBuilder) -> None:
    call, zxid = both(t)
    t.respond(call, Reply(zxid=zxid, parts=(Reply(path="/x"), Reply(stat=stat(zxid, zxid, 1, 1)))))


@legal_case
def multi_is_refused(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.refuse(ann, BOTH, "NODE_EXISTS", "RUNTIME_INCONSISTENCY")
    t.get(ann, "/x", b"")


@legal_case
def multi_that_only_checks(t: HistoryBuilder) -> None:
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
def one_of_several_reads_has_no_reply(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    call = t.invoke(ann, Request("multi", parts=(Request("get", "/x"), Request("get", "/x"))))
    t.respond(call, Reply(zxid=t.zxid, parts=(Reply(data=b"1"),)))


@violates(image.ATOMIC)
def read_shows_half_of_a_multi(t: HistoryBuilder) -> None:
    call, zxid = both(t)
    t.respond(call, Reply(zxid=zxid, parts=(Reply(path="/x"), Reply())))
    t.get(t.client(2), "/x", b"1")


@violates(writes.ATOMIC)
def half_of_a_multi_is_carried_out(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, BOTH)
    t.respond(call, Reply(zxid=t.commit(ann, Change(0, 0, "create", "/x", b"1")), parts=(Reply(path="/x"), Reply())))


@violates(writes.ATOMIC)
def half_of_a_refused_multi_is_carried_out(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    call = t.invoke(ann, Request("multi", parts=(Request("create", "/y", b""), Request("create", "/x", b""))))
    zxid = t.commit(ann, Change(0, 0, "create", "/y", b""))
    t.respond(call, Reply(zxid=zxid, parts=(Reply(), Reply("NODE_EXISTS"))))


@violates(writes.ATOMIC)
def part_of_a_multi_has_no_reply(t: HistoryBuilder) -> None:
    call, zxid = both(t)
    t.respond(call, Reply(zxid=zxid, parts=(Reply(path="/x"),)))


@violates(writes.REFUSED)
def multi_reports_the_wrong_part_as_refused(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.refuse(ann, BOTH, "", "BAD_VERSION")


# -- errors --------------------------------------------------------------------------------------------


@legal_case
def every_error_is_correct(t: HistoryBuilder) -> None:
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
def correct_version_is_refused(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.refuse(ann, Request("set", "/x", b"", version=0), "BAD_VERSION")


@violates(writes.REFUSED)
def wrong_version_is_accepted(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.delete(ann, "/x", expected=3)


@violates(writes.REFUSED)
def second_error_is_reported_instead_of_the_first(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.create(ann, "/x/y")
    t.refuse(ann, Request("delete", "/x", version=7), "NOT_EMPTY")


@violates(writes.SHOWN)
def create_reply_has_another_path(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, Request("create", "/x", b""))
    t.respond(call, Reply(zxid=t.commit(ann, Change(0, 0, "create", "/x", b"")), path="/y"))


@violates(writes.SHOWN)
def transaction_contains_another_change(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, Request("create", "/x", b"1"))
    t.respond(call, Reply(zxid=t.commit(ann, Change(0, 0, "create", "/x", b"2")), path="/x"))


@violates(writes.SHOWN)
def refusal_is_reported_as_success(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, Request("delete", "/x"))
    t.respond(call, Reply(zxid=t.commit(ann, Change(0, 0, "error"))))


@violates(writes.SHOWN)
def success_is_reported_as_refusal(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, Request("create", "/x", b"1"))
    t.respond(call, Reply("NODE_EXISTS", zxid=t.commit(ann, Change(0, 0, "create", "/x", b"1"))))


TWO_PARTS: Final = Request("multi", parts=(Request("create", "/x", b""), Request("delete", "/nothing")))


@legal_case
def refused_multi_has_the_error_in_its_header_only(t: HistoryBuilder) -> None:
    """Its first part was possible; the header does not say which part is wrong."""
    ann = t.client(1)
    call = t.invoke(ann, TWO_PARTS)
    t.respond(call, Reply("NO_NODE", zxid=t.commit(ann, Change(0, 0, "error"))))


@violates(writes.REFUSED)
def possible_multi_is_refused_in_its_header(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, BOTH)
    t.respond(call, Reply("NO_NODE", zxid=t.commit(ann, Change(0, 0, "error"))))


@violates(writes.ATOMIC)
def impossible_multi_is_carried_out_without_replies(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, TWO_PARTS)
    made = Change(0, 0, "create", "/x", b""), Change(0, 0, "delete", "/nothing")
    t.respond(call, Reply(zxid=t.commit(ann, *made)))


@violates(writes.REFUSED)
def impossible_lost_multi_is_carried_out(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.lose(t.invoke(ann, TWO_PARTS))
    t.commit(ann, Change(0, 0, "create", "/x", b""), Change(0, 0, "delete", "/nothing"))


@legal_case
def child_is_made_in_the_same_multi_as_its_parent(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, Request("multi", parts=(Request("create", "/x", b""), Request("create", "/x/y", b""))))
    zxid = t.commit(ann, *(Change(0, 0, "create", path, b"") for path in ("/x", "/x/y")))
    t.respond(call, Reply(zxid=zxid, parts=(Reply(path="/x"), Reply(path="/x/y"))))
