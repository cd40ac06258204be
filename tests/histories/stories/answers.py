"""What a read shows, what a write is answered, and why something is refused."""

from __future__ import annotations

from typing import Final

from harness.checkers.store import image, writes
from harness.history import Change, Reply, Request
from tests.histories.stories.story import BOTH, bad, both, good, stat
from tests.histories.tale import Tale

# -- a read shows one state ----------------------------------------------------------------------------


@good
def a_read_sees_what_its_own_session_wrote(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    t.set(ann, "/x", b"2", 1)
    t.get(ann, "/x", b"2")
    t.children(ann, "/", "zookeeper", "x")
    t.delete(ann, "/x")
    t.exists(ann, "/x", there=False)


@bad(image.INVARIANT)
def a_read_sees_what_nobody_wrote(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    t.get(ann, "/x", b"2")


@bad(image.INVARIANT)
def a_read_sees_what_was_overwritten(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    t.set(ann, "/x", b"2", 1)
    t.get(ann, "/x", b"1")


@bad(image.INVARIANT)
def a_read_sees_what_is_gone(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    t.delete(ann, "/x")
    t.exists(ann, "/x", there=True)


@bad(image.INVARIANT)
def a_read_does_not_see_what_is_there(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    t.exists(ann, "/x", there=False)


@bad(image.INVARIANT)
def a_child_is_not_seen(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    t.children(ann, "/", "zookeeper")


@bad(image.INVARIANT)
def a_state_that_nobody_committed_is_seen(t: Tale) -> None:
    t.exists(t.client(1), "/x", there=False, zxid=9)


@good
def a_stat_of_a_node(t: Tale) -> None:
    ann = t.client(1)
    czxid = t.create(ann, "/x", b"1")
    mzxid = t.zxid + 1
    t.set(ann, "/x", b"22", 1, stat=stat(czxid, mzxid, 1, 2))
    call = t.ask(ann, Request("exists", "/x"))
    t.tell(call, Reply(zxid=t.zxid, stat=stat(czxid, mzxid, 1, 2)))


@bad(writes.SHOWN)
def a_write_is_told_a_wrongstat(t: Tale) -> None:
    ann = t.client(1)
    czxid = t.create(ann, "/x", b"1")
    t.set(ann, "/x", b"22", 1, stat=stat(czxid, t.zxid + 1, 2, 2))


@bad(image.INVARIANT)
def a_read_is_told_a_wrongstat(t: Tale) -> None:
    ann = t.client(1)
    czxid = t.create(ann, "/x", b"1")
    call = t.ask(ann, Request("exists", "/x"))
    t.tell(call, Reply(zxid=t.zxid, stat=stat(czxid, czxid, 0, 3)))


@good
def reads_whose_zxid_is_not_known(t: Tale) -> None:
    """Bob may see any state that is no older than what he has seen."""
    ann, bob = t.client(1), t.client(2, server=2)
    t.create(ann, "/x", b"1")
    t.set(ann, "/x", b"2", 1)
    t.set(ann, "/x", b"3", 2)
    t.get(bob, "/x", b"2", zxid=0)


@bad(image.INVARIANT)
def a_read_whose_zxid_is_not_known_is_older_than_what_was_seen(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2, server=2)
    t.create(ann, "/x", b"1")
    t.set(ann, "/x", b"2", 1)
    t.get(bob, "/x", b"2")
    t.get(bob, "/x", b"1", zxid=0)


@bad(image.INVARIANT)
def a_read_whose_zxid_is_not_known_sees_what_never_was(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    t.get(ann, "/x", b"7", zxid=0)


# -- multi ---------------------------------------------------------------------------------------------


@good
def a_multi_is_done(t: Tale) -> None:
    call, zxid = both(t)
    t.tell(call, Reply(zxid=zxid, parts=(Reply(path="/x"), Reply(stat=stat(zxid, zxid, 1, 1)))))


@good
def a_multi_is_refused(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.refuse(ann, BOTH, "NODE_EXISTS", "RUNTIME_INCONSISTENCY")
    t.get(ann, "/x", b"")


@good
def a_multi_that_only_checks(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    call = t.ask(ann, Request("multi", parts=(Request("check", "/x", version=0),)))
    t.tell(call, Reply(zxid=t.commit(ann, Change(0, 0, "other", "/x")), parts=(Reply(),)))


@good
def several_reads_at_once(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    call = t.ask(ann, Request("multi", parts=(Request("get", "/x"), Request("children", "/y"))))
    t.tell(call, Reply(zxid=t.zxid, parts=(Reply(data=b"1"), Reply("NO_NODE"))))


@bad(image.INVARIANT)
def one_of_several_reads_is_wrong(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    call = t.ask(ann, Request("multi", parts=(Request("get", "/x"), Request("get", "/x"))))
    t.tell(call, Reply(zxid=t.zxid, parts=(Reply(data=b"1"), Reply(data=b"2"))))


@bad(image.INVARIANT)
def one_of_several_reads_is_not_answered(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    call = t.ask(ann, Request("multi", parts=(Request("get", "/x"), Request("get", "/x"))))
    t.tell(call, Reply(zxid=t.zxid, parts=(Reply(data=b"1"),)))


@bad(image.ATOMIC)
def half_of_a_multi_is_seen(t: Tale) -> None:
    call, zxid = both(t)
    t.tell(call, Reply(zxid=zxid, parts=(Reply(path="/x"), Reply())))
    t.get(t.client(2), "/x", b"1")


@bad(writes.ATOMIC)
def half_of_a_multi_is_done(t: Tale) -> None:
    ann = t.client(1)
    call = t.ask(ann, BOTH)
    t.tell(call, Reply(zxid=t.commit(ann, Change(0, 0, "create", "/x", b"1")), parts=(Reply(path="/x"), Reply())))


@bad(writes.ATOMIC)
def a_multi_was_refused_and_half_of_it_done(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    call = t.ask(ann, Request("multi", parts=(Request("create", "/y", b""), Request("create", "/x", b""))))
    zxid = t.commit(ann, Change(0, 0, "create", "/y", b""))
    t.tell(call, Reply(zxid=zxid, parts=(Reply(), Reply("NODE_EXISTS"))))


@bad(writes.ATOMIC)
def a_part_of_a_multi_is_not_answered(t: Tale) -> None:
    call, zxid = both(t)
    t.tell(call, Reply(zxid=zxid, parts=(Reply(path="/x"),)))


@bad(writes.REFUSED)
def a_multi_blames_the_wrong_part(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.refuse(ann, BOTH, "", "BAD_VERSION")


# -- errors --------------------------------------------------------------------------------------------


@good
def every_error_has_its_reason(t: Tale) -> None:
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


@bad(writes.REFUSED)
def a_version_is_refused_that_is_right(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.refuse(ann, Request("set", "/x", b"", version=0), "BAD_VERSION")


@bad(writes.REFUSED)
def a_version_is_accepted_that_is_wrong(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.delete(ann, "/x", expected=3)


@bad(writes.REFUSED)
def the_second_reason_is_given(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.create(ann, "/x/y")
    t.refuse(ann, Request("delete", "/x", version=7), "NOT_EMPTY")


@bad(writes.SHOWN)
def a_write_is_told_another_path(t: Tale) -> None:
    ann = t.client(1)
    call = t.ask(ann, Request("create", "/x", b""))
    t.tell(call, Reply(zxid=t.commit(ann, Change(0, 0, "create", "/x", b"")), path="/y"))


@bad(writes.SHOWN)
def something_else_was_written(t: Tale) -> None:
    ann = t.client(1)
    call = t.ask(ann, Request("create", "/x", b"1"))
    t.tell(call, Reply(zxid=t.commit(ann, Change(0, 0, "create", "/x", b"2")), path="/x"))


@bad(writes.SHOWN)
def a_refusal_is_told_as_done(t: Tale) -> None:
    ann = t.client(1)
    call = t.ask(ann, Request("delete", "/x"))
    t.tell(call, Reply(zxid=t.commit(ann, Change(0, 0, "error"))))


@bad(writes.SHOWN)
def what_was_done_is_told_as_refused(t: Tale) -> None:
    ann = t.client(1)
    call = t.ask(ann, Request("create", "/x", b"1"))
    t.tell(call, Reply("NODE_EXISTS", zxid=t.commit(ann, Change(0, 0, "create", "/x", b"1"))))


TWO_PARTS: Final = Request("multi", parts=(Request("create", "/x", b""), Request("delete", "/nothing")))


@good
def a_multi_that_is_refused_says_so_in_its_header_only(t: Tale) -> None:
    """Its first part could have been done; which one was wrong is not said."""
    ann = t.client(1)
    call = t.ask(ann, TWO_PARTS)
    t.tell(call, Reply("NO_NODE", zxid=t.commit(ann, Change(0, 0, "error"))))


@bad(writes.REFUSED)
def a_multi_that_had_to_be_done_is_refused_in_its_header(t: Tale) -> None:
    ann = t.client(1)
    call = t.ask(ann, BOTH)
    t.tell(call, Reply("NO_NODE", zxid=t.commit(ann, Change(0, 0, "error"))))


@bad(writes.ATOMIC)
def a_multi_that_had_to_be_refused_is_done_without_answers(t: Tale) -> None:
    ann = t.client(1)
    call = t.ask(ann, TWO_PARTS)
    made = Change(0, 0, "create", "/x", b""), Change(0, 0, "delete", "/nothing")
    t.tell(call, Reply(zxid=t.commit(ann, *made)))


@bad(writes.REFUSED)
def a_lost_multi_that_had_to_be_refused_is_done(t: Tale) -> None:
    ann = t.client(1)
    t.lose(t.ask(ann, TWO_PARTS))
    t.commit(ann, Change(0, 0, "create", "/x", b""), Change(0, 0, "delete", "/nothing"))


@good
def a_child_is_made_in_the_same_multi_as_its_parent(t: Tale) -> None:
    ann = t.client(1)
    call = t.ask(ann, Request("multi", parts=(Request("create", "/x", b""), Request("create", "/x/y", b""))))
    zxid = t.commit(ann, *(Change(0, 0, "create", path, b"") for path in ("/x", "/x/y")))
    t.tell(call, Reply(zxid=zxid, parts=(Reply(path="/x"), Reply(path="/x/y"))))
