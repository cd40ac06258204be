"""For every promise of the store, histories that keep it and histories that break it, each to be read by a person.

A story is a function that tells a `Tale`; `broken` names the promise that it breaks, or nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import evolve, frozen

from harness.checkers.store import (
    LINEARIZABLE,
    effects,
    image,
    log,
    order,
    outcomes,
    realtime,
    sequences,
    sessions,
    watches,
)
from harness.history import Change, History, Jump, Lost, Reply, Request, Stat, Told
from harness.mutants.bank.tale import Tale

Tell = Callable[[Tale], None]


@frozen
class Story:
    name: str
    broken: str
    history: History


STORIES: Final[dict[str, Story]] = {}


def good(tell: Tell) -> Tell:
    return _told(tell, "")


def bad(promise: str) -> Callable[[Tell], Tell]:
    return lambda tell: _told(tell, promise)


def _told(tell: Tell, broken: str) -> Tell:
    tale = Tale()
    tell(tale)
    name = tell.__name__
    assert name not in STORIES
    STORIES[name] = Story(name, broken, tale.history())
    return tell


# -- changes follow from each other --------------------------------------------------------------------


@bad(log.PROMISE)
def a_node_is_created_twice(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.create(ann, "/x")


@bad(log.PROMISE)
def a_child_without_a_parent(t: Tale) -> None:
    t.create(t.client(1), "/x/y")


@bad(log.PROMISE)
def a_child_of_an_ephemeral(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x", mode="ephemeral")
    t.create(ann, "/x/y")


@bad(log.PROMISE)
def what_is_gone_is_set(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.delete(ann, "/x")
    t.set(ann, "/x", b"1", 1)


@bad(log.PROMISE)
def a_parent_goes_before_its_children(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.create(ann, "/x/y")
    t.delete(ann, "/x")


@bad(log.PROMISE)
def a_version_is_given_twice(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.set(ann, "/x", b"1", 1)
    t.set(ann, "/x", b"2", 1)


@bad(log.PROMISE)
def what_is_not_there_is_deleted(t: Tale) -> None:
    t.delete(t.client(1), "/x")


@bad(log.PROMISE)
def zxids_go_back_in_the_log(t: Tale) -> None:
    ann = t.client(1)
    t.commit(None, Change(0, 0, "other"))
    t.zxid = 0
    t.create(ann, "/x")


# -- order ---------------------------------------------------------------------------------------------


@good
def two_requests_in_flight(t: Tale) -> None:
    ann = t.client(1)
    one = t.ask(ann, Request("create", "/x", b""))
    two = t.ask(ann, Request("get", "/x"))
    zxid = t.commit(ann, Change(0, 0, "create", "/x", b""))
    t.tell(one, Reply(zxid=zxid, path="/x"))
    t.tell(two, Reply(zxid=zxid, data=b""))


@bad(order.REPLIES)
def the_second_is_answered_first(t: Tale) -> None:
    ann = t.client(1)
    one = t.ask(ann, Request("exists", "/x"))
    two = t.ask(ann, Request("exists", "/y"))
    t.tell(two, Reply("NO_NODE", zxid=t.zxid))
    t.tell(one, Reply("NO_NODE", zxid=t.zxid))


@bad(order.REPLIES)
def a_call_is_answered_twice(t: Tale) -> None:
    ann = t.client(1)
    call = t.ask(ann, Request("exists", "/x"))
    t.tell(call, Reply("NO_NODE", zxid=t.zxid))
    t.tell(call, Reply("NO_NODE", zxid=t.zxid))


@bad(order.REPLIES)
def a_lost_call_is_answered(t: Tale) -> None:
    ann = t.client(1)
    call = t.ask(ann, Request("exists", "/x"))
    t.lose(call)
    t.tell(call, Reply("NO_NODE", zxid=t.zxid))


@bad(order.REPLIES)
def a_call_is_lost_after_its_answer(t: Tale) -> None:
    ann = t.client(1)
    call = t.ask(ann, Request("exists", "/x"))
    t.tell(call, Reply("NO_NODE", zxid=t.zxid))
    t.lose(call)


@bad(order.REPLIES)
def a_call_is_answered_that_nobody_asked(t: Tale) -> None:
    ann = t.client(1)
    t.sync(ann)
    t.events.append(Told(t.later(), 1, ann.session, 77, Reply(zxid=t.zxid)))


@bad(order.REPLIES)
def a_call_is_lost_that_nobody_asked(t: Tale) -> None:
    ann = t.client(1)
    t.sync(ann)
    t.events.append(Lost(t.later(), 1, ann.session, 77))


@bad(order.WRITES)
def writes_change_places(t: Tale) -> None:
    """Both were in flight. The second took effect first."""
    ann = t.client(1)
    one = t.ask(ann, Request("create", "/x", b""))
    two = t.ask(ann, Request("create", "/y", b""))
    late = t.commit(ann, Change(0, 0, "create", "/y", b""))
    t.tell(one, Reply(zxid=t.commit(ann, Change(0, 0, "create", "/x", b"")), path="/x"))
    t.tell(two, Reply(zxid=late, path="/y"))


@bad(order.WRITES)
def a_lost_write_overtakes(t: Tale) -> None:
    """The reply to the first was lost, and it took effect behind the second."""
    ann = t.client(1)
    t.lose(t.ask(ann, Request("create", "/x", b"")))
    t.back(ann)
    t.create(ann, "/y")
    t.commit(ann, Change(0, 0, "create", "/x", b""))
    t.sync(ann)


@good
def another_server_lags(t: Tale) -> None:
    """Bob's server has not heard of it yet. It may."""
    ann, bob = t.client(1), t.client(2, server=2)
    t.create(ann, "/x")
    t.exists(bob, "/x", there=False, zxid=t.zxid - 1)
    t.exists(bob, "/x", there=True)


@bad(order.NEVER_BACK)
def another_server_lags_behind_what_was_seen(t: Tale) -> None:
    """The same, but Bob has seen it on another server before."""
    ann, bob = t.client(1), t.client(2, server=1)
    t.create(ann, "/x")
    t.exists(bob, "/x", there=True)
    t.became(bob, "disconnected")
    t.became(bob, "connected", server=2)
    t.exists(bob, "/x", there=False, zxid=t.zxid - 1)


@bad(order.NEVER_BACK)
def an_event_shows_more_than_the_next_read(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.exists(bob, "/x", there=False, watch="once")
    t.create(ann, "/x")
    t.fire(bob, "created", "/x")
    t.exists(bob, "/x", there=False, zxid=t.zxid - 1)


@bad(realtime.PROMISE)
def a_write_is_seen_before_it_is_asked_for(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.zxid += 1
    t.sync(bob)
    t.zxid -= 1
    t.create(ann, "/x")


@good
def a_write_is_seen_before_it_is_answered(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    call = t.ask(ann, Request("create", "/x", b""))
    zxid = t.commit(ann, Change(0, 0, "create", "/x", b""))
    t.exists(bob, "/x", there=True)
    t.tell(call, Reply(zxid=zxid, path="/x"))


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


@bad(image.PROMISE)
def a_read_sees_what_nobody_wrote(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    t.get(ann, "/x", b"2")


@bad(image.PROMISE)
def a_read_sees_what_was_overwritten(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    t.set(ann, "/x", b"2", 1)
    t.get(ann, "/x", b"1")


@bad(image.PROMISE)
def a_read_sees_what_is_gone(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    t.delete(ann, "/x")
    t.exists(ann, "/x", there=True)


@bad(image.PROMISE)
def a_read_does_not_see_what_is_there(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    t.exists(ann, "/x", there=False)


@bad(image.PROMISE)
def a_child_is_not_seen(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    t.children(ann, "/", "zookeeper")


@bad(image.PROMISE)
def a_state_that_nobody_committed_is_seen(t: Tale) -> None:
    t.exists(t.client(1), "/x", there=False, zxid=9)


def _stat(czxid: int, mzxid: int, version: int, length: int) -> Stat:
    return Stat(czxid, mzxid, czxid, version, 0, 0, 0, length, 0)


@good
def a_stat_of_a_node(t: Tale) -> None:
    ann = t.client(1)
    czxid = t.create(ann, "/x", b"1")
    mzxid = t.zxid + 1
    t.set(ann, "/x", b"22", 1, stat=_stat(czxid, mzxid, 1, 2))
    call = t.ask(ann, Request("exists", "/x"))
    t.tell(call, Reply(zxid=t.zxid, stat=_stat(czxid, mzxid, 1, 2)))


@bad(effects.PROMISE)
def a_write_is_told_a_wrong_stat(t: Tale) -> None:
    ann = t.client(1)
    czxid = t.create(ann, "/x", b"1")
    t.set(ann, "/x", b"22", 1, stat=_stat(czxid, t.zxid + 1, 2, 2))


@bad(image.PROMISE)
def a_read_is_told_a_wrong_stat(t: Tale) -> None:
    ann = t.client(1)
    czxid = t.create(ann, "/x", b"1")
    call = t.ask(ann, Request("exists", "/x"))
    t.tell(call, Reply(zxid=t.zxid, stat=_stat(czxid, czxid, 0, 3)))


@good
def reads_whose_zxid_is_not_known(t: Tale) -> None:
    """Bob may see any state that is no older than what he has seen."""
    ann, bob = t.client(1), t.client(2, server=2)
    t.create(ann, "/x", b"1")
    t.set(ann, "/x", b"2", 1)
    t.set(ann, "/x", b"3", 2)
    t.get(bob, "/x", b"2", zxid=0)


@bad(image.PROMISE)
def a_read_whose_zxid_is_not_known_is_older_than_what_was_seen(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2, server=2)
    t.create(ann, "/x", b"1")
    t.set(ann, "/x", b"2", 1)
    t.get(bob, "/x", b"2")
    t.get(bob, "/x", b"1", zxid=0)


@bad(image.PROMISE)
def a_read_whose_zxid_is_not_known_sees_what_never_was(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    t.get(ann, "/x", b"7", zxid=0)


# -- multi ---------------------------------------------------------------------------------------------

BOTH: Final = Request("multi", parts=(Request("create", "/x", b"1"), Request("set", "/x", b"2", version=0)))


def _both(t: Tale) -> tuple[int, int]:
    ann = t.client(1)
    call = t.ask(ann, BOTH)
    made = Change(0, 0, "create", "/x", b"1"), Change(0, 0, "set", "/x", b"2", 1)
    return call, t.commit(ann, *made)


@good
def a_multi_is_done(t: Tale) -> None:
    call, zxid = _both(t)
    t.tell(call, Reply(zxid=zxid, parts=(Reply(path="/x"), Reply(stat=_stat(zxid, zxid, 1, 1)))))


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


@bad(image.PROMISE)
def one_of_several_reads_is_wrong(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    call = t.ask(ann, Request("multi", parts=(Request("get", "/x"), Request("get", "/x"))))
    t.tell(call, Reply(zxid=t.zxid, parts=(Reply(data=b"1"), Reply(data=b"2"))))


@bad(image.PROMISE)
def one_of_several_reads_is_not_answered(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    call = t.ask(ann, Request("multi", parts=(Request("get", "/x"), Request("get", "/x"))))
    t.tell(call, Reply(zxid=t.zxid, parts=(Reply(data=b"1"),)))


@bad(image.ATOMIC)
def half_of_a_multi_is_seen(t: Tale) -> None:
    call, zxid = _both(t)
    t.tell(call, Reply(zxid=zxid, parts=(Reply(path="/x"), Reply())))
    t.get(t.client(2), "/x", b"1")


@bad(effects.ATOMIC)
def half_of_a_multi_is_done(t: Tale) -> None:
    ann = t.client(1)
    call = t.ask(ann, BOTH)
    t.tell(call, Reply(zxid=t.commit(ann, Change(0, 0, "create", "/x", b"1")), parts=(Reply(path="/x"), Reply())))


@bad(effects.ATOMIC)
def a_multi_was_refused_and_half_of_it_done(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    call = t.ask(ann, Request("multi", parts=(Request("create", "/y", b""), Request("create", "/x", b""))))
    zxid = t.commit(ann, Change(0, 0, "create", "/y", b""))
    t.tell(call, Reply(zxid=zxid, parts=(Reply(), Reply("NODE_EXISTS"))))


@bad(effects.ATOMIC)
def a_part_of_a_multi_is_not_answered(t: Tale) -> None:
    call, zxid = _both(t)
    t.tell(call, Reply(zxid=zxid, parts=(Reply(path="/x"),)))


@bad(effects.REFUSED)
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


@bad(effects.REFUSED)
def a_version_is_refused_that_is_right(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.refuse(ann, Request("set", "/x", b"", version=0), "BAD_VERSION")


@bad(effects.REFUSED)
def a_version_is_accepted_that_is_wrong(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.delete(ann, "/x", expected=3)


@bad(effects.REFUSED)
def the_second_reason_is_given(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.create(ann, "/x/y")
    t.refuse(ann, Request("delete", "/x", version=7), "NOT_EMPTY")


@bad(effects.PROMISE)
def a_write_is_told_another_path(t: Tale) -> None:
    ann = t.client(1)
    call = t.ask(ann, Request("create", "/x", b""))
    t.tell(call, Reply(zxid=t.commit(ann, Change(0, 0, "create", "/x", b"")), path="/y"))


@bad(effects.PROMISE)
def something_else_was_written(t: Tale) -> None:
    ann = t.client(1)
    call = t.ask(ann, Request("create", "/x", b"1"))
    t.tell(call, Reply(zxid=t.commit(ann, Change(0, 0, "create", "/x", b"2")), path="/x"))


@bad(effects.PROMISE)
def a_refusal_is_told_as_done(t: Tale) -> None:
    ann = t.client(1)
    call = t.ask(ann, Request("delete", "/x"))
    t.tell(call, Reply(zxid=t.commit(ann, Change(0, 0, "error"))))


@bad(effects.PROMISE)
def what_was_done_is_told_as_refused(t: Tale) -> None:
    ann = t.client(1)
    call = t.ask(ann, Request("create", "/x", b"1"))
    t.tell(call, Reply("NODE_EXISTS", zxid=t.commit(ann, Change(0, 0, "create", "/x", b"1"))))


# -- what was acknowledged, and what was lost ----------------------------------------------------------


@bad(outcomes.KEPT)
def an_acknowledged_write_was_never_committed(t: Tale) -> None:
    ann = t.client(1)
    call = t.ask(ann, Request("create", "/x", b""))
    t.tell(call, Reply(zxid=t.zxid + 1, path="/x"))
    t.commit(None)
    t.commit(None, Change(0, 0, "other"))


@bad(outcomes.KEPT)
def an_acknowledged_write_is_anothers(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    mine = t.ask(ann, Request("create", "/x", b""))
    zxid = t.create(bob, "/x")
    t.tell(mine, Reply(zxid=zxid, path="/x"))


@bad(outcomes.KEPT)
def two_writes_share_one_transaction(t: Tale) -> None:
    ann = t.client(1)
    one = t.ask(ann, Request("create", "/x", b""))
    two = t.ask(ann, Request("create", "/x", b""))
    zxid = t.commit(ann, Change(0, 0, "create", "/x", b""))
    t.tell(one, Reply(zxid=zxid, path="/x"))
    t.tell(two, Reply(zxid=zxid, path="/x"))


@bad(outcomes.KEPT)
def a_refusal_has_the_zxid_of_another(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    call = t.ask(bob, Request("create", "/x", b""))
    t.tell(call, Reply("NODE_EXISTS", zxid=t.zxid))


@good
def a_lost_write_was_carried_out(t: Tale) -> None:
    ann = t.client(1)
    t.lose(t.ask(ann, Request("create", "/x", b"")))
    t.commit(ann, Change(0, 0, "create", "/x", b""))
    t.back(ann)
    t.exists(ann, "/x", there=True)


@good
def a_lost_write_was_not_carried_out(t: Tale) -> None:
    ann = t.client(1)
    t.lose(t.ask(ann, Request("create", "/x", b"")))
    t.back(ann)
    t.exists(ann, "/x", there=False)
    t.create(ann, "/x")


@good
def the_second_of_two_lost_writes_was_carried_out(t: Tale) -> None:
    """Both asked for the same but for the version, and only one of them was right."""
    ann = t.client(1)
    t.create(ann, "/x")
    one = t.ask(ann, Request("delete", "/x", version=3))
    two = t.ask(ann, Request("delete", "/x"))
    t.lose(one)
    t.lose(two)
    t.commit(ann, Change(0, 0, "delete", "/x"))
    t.back(ann)
    t.exists(ann, "/x", there=False)


@good
def a_lost_sequential_write_was_carried_out(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/q")
    t.lose(t.ask(ann, Request("create", "/q/n-", b"", mode="ephemeral sequential")))
    t.commit(ann, Change(0, 0, "create", "/q/n-0000000000", b"", owner=ann.session))
    t.back(ann)
    t.children(ann, "/q", "n-0000000000")


@bad(outcomes.ONCE)
def a_lost_write_was_carried_out_twice(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.lose(t.ask(ann, Request("set", "/x", b"1")))
    t.commit(ann, Change(0, 0, "set", "/x", b"1", 1))
    t.commit(ann, Change(0, 0, "set", "/x", b"1", 2))


@bad(outcomes.ONCE)
def a_refused_write_was_carried_out_after_all(t: Tale) -> None:
    ann = t.client(1)
    t.refuse(ann, Request("create", "/x/y", b""), "NO_NODE")
    t.create(ann, "/x")
    t.commit(ann, Change(0, 0, "create", "/x/y", b""))


@bad(outcomes.ONCE)
def a_write_was_carried_out_that_nobody_asked_for(t: Tale) -> None:
    ann = t.client(1)
    t.sync(ann)
    t.commit(ann, Change(0, 0, "create", "/x", b""))


@bad(outcomes.ONCE)
def a_lost_sequential_write_got_a_strange_name(t: Tale) -> None:
    ann = t.client(1)
    t.lose(t.ask(ann, Request("create", "/n-", b"", mode="sequential")))
    t.commit(ann, Change(0, 0, "create", "/n-0", b""))


@bad(outcomes.ONCE)
def a_lost_ephemeral_write_became_persistent(t: Tale) -> None:
    ann = t.client(1)
    t.lose(t.ask(ann, Request("create", "/x", b"", mode="ephemeral")))
    t.commit(ann, Change(0, 0, "create", "/x", b""))


@bad(outcomes.ONCE)
def a_lost_write_left_another_version(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.lose(t.ask(ann, Request("set", "/x", b"1", version=4)))
    t.commit(ann, Change(0, 0, "set", "/x", b"1", 1))


@good
def a_container_is_removed_by_servers(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/c", mode="container")
    t.commit(None, Change(0, 0, "delete", "/c"))
    t.exists(ann, "/c", there=False)


# -- sessions and ephemeral nodes ----------------------------------------------------------------------


@good
def an_ephemeral_goes_with_its_session(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/e", mode="ephemeral")
    t.exists(bob, "/e", there=True)
    t.close(ann, "/e")
    t.became(ann, "expired")
    t.exists(bob, "/e", there=False)


@good
def an_ephemeral_is_deleted_before(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/e", mode="ephemeral")
    t.delete(ann, "/e")
    t.close(ann)
    t.became(ann, "closed")


@bad(sessions.EPHEMERAL)
def an_ephemeral_stays(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/e", mode="ephemeral")
    t.close(ann)


@bad(sessions.EPHEMERAL)
def a_session_takes_what_is_not_its_own(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/e", mode="ephemeral")
    t.close(bob, "/e")


@bad(sessions.EPHEMERAL)
def an_ephemeral_comes_after_its_session(t: Tale) -> None:
    ann = t.client(1)
    call = t.ask(ann, Request("create", "/e", b"", mode="ephemeral"))
    t.close(ann)
    t.commit(ann, Change(0, 0, "create", "/e", b"", owner=ann.session))
    t.lose(call)


@bad(sessions.EPHEMERAL)
def an_ephemeral_of_another_session(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    call = t.ask(ann, Request("create", "/e", b"", mode="ephemeral"))
    zxid = t.commit(ann, Change(0, 0, "create", "/e", b"", owner=bob.session))
    t.tell(call, Reply(zxid=zxid, path="/e"))


@bad(sessions.LIVES)
def a_closed_session_writes(t: Tale) -> None:
    ann = t.client(1)
    t.close(ann)
    t.lose(t.ask(ann, Request("create", "/x", b"")))
    t.commit(ann, Change(0, 0, "create", "/x", b""))


@bad(sessions.LIVES)
def a_closed_session_comes_back(t: Tale) -> None:
    ann = t.client(1)
    t.close(ann)
    t.commit(ann, Change(0, 0, "attach"))


@bad(sessions.LIVES)
def a_closed_session_reads(t: Tale) -> None:
    ann = t.client(1)
    t.close(ann)
    t.sync(ann)


@good
def a_closed_session_reads_where_nobody_knows_it_yet(t: Tale) -> None:
    ann = t.client(1)
    t.close(ann)
    t.sync(ann, zxid=t.zxid - 1)


@bad(sessions.LIVES)
def an_expired_session_reads(t: Tale) -> None:
    ann = t.client(1)
    t.close(ann)
    t.became(ann, "expired")
    t.sync(ann, zxid=t.zxid - 1)


@bad(sessions.LIVES)
def an_expired_session_is_connected_again(t: Tale) -> None:
    ann = t.client(1)
    t.close(ann)
    t.became(ann, "expired")
    t.became(ann, "connected")


@bad(sessions.LIVES)
def a_session_expires_and_nobody_closed_it(t: Tale) -> None:
    t.became(t.client(1), "expired")


@bad(sessions.LIVES)
def a_session_is_over_and_nobody_closed_it(t: Tale) -> None:
    t.became(t.client(1), "closed")


@bad(sessions.LIVES)
def a_session_that_nobody_opened(t: Tale) -> None:
    ann = t.client(1)
    t.became(evolve(ann, session=0x999), "connected")


@bad(sessions.LIVES)
def a_session_is_opened_twice(t: Tale) -> None:
    t.commit(t.client(1), Change(0, 0, "open"))


@good
def an_expired_session_is_told_so(t: Tale) -> None:
    ann = t.client(1)
    t.close(ann)
    t.refuse(ann, Request("create", "/x", b""), "SESSION_EXPIRED")
    t.became(ann, "expired")


@bad(sessions.LIVES)
def a_living_session_is_told_that_it_has_expired(t: Tale) -> None:
    ann = t.client(1)
    t.refuse(ann, Request("create", "/x", b""), "SESSION_EXPIRED")


@bad(sessions.LIVES)
def a_session_is_told_too_early_that_it_has_expired(t: Tale) -> None:
    ann = t.client(1)
    t.refuse(ann, Request("create", "/x", b""), "SESSION_EXPIRED")
    t.close(ann)


@bad(sessions.LIVES)
def a_session_writes_that_was_never_opened(t: Tale) -> None:
    t.commit(evolve(t.client(1), session=0x999), Change(0, 0, "create", "/x", b""))


# -- sequence numbers ----------------------------------------------------------------------------------


@good
def numbers_count_all_children(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/q")
    t.create(ann, "/q/n-", mode="sequential", named="/q/n-0000000000")
    t.create(ann, "/q/other")
    t.delete(ann, "/q/n-0000000000")
    t.create(ann, "/q/n-", mode="ephemeral sequential", named="/q/n-0000000002")
    t.create(ann, "/n-", mode="sequential", named="/n-0000000001")


@good
def numbers_begin_again_with_their_parent(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/q")
    t.create(ann, "/q/n-", mode="sequential", named="/q/n-0000000000")
    t.delete(ann, "/q/n-0000000000")
    t.delete(ann, "/q")
    t.create(ann, "/q")
    t.create(ann, "/q/n-", mode="sequential", named="/q/n-0000000000")


@bad(sequences.PROMISE)
def a_number_is_given_again(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/n-", mode="sequential", named="/n-0000000000")
    t.delete(ann, "/n-0000000000")
    t.create(ann, "/n-", mode="sequential", named="/n-0000000000")


@bad(sequences.PROMISE)
def a_number_is_left_out(t: Tale) -> None:
    t.create(t.client(1), "/n-", mode="sequential", named="/n-0000000001")


@bad(sequences.PROMISE)
def the_second_part_of_a_multi_gets_a_wrong_number(t: Tale) -> None:
    ann = t.client(1)
    one = Request("create", "/n-", b"", mode="sequential")
    call = t.ask(ann, Request("multi", parts=(one, one)))
    names = "/n-0000000000", "/n-0000000002"
    zxid = t.commit(ann, *(Change(0, 0, "create", name, b"") for name in names))
    t.tell(call, Reply(zxid=zxid, parts=tuple(Reply(path=name) for name in names)))


# -- watches -------------------------------------------------------------------------------------------


@good
def every_one_shot_watch_fires_once(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.exists(bob, "/x", there=False, watch="once")
    t.children(bob, "/", "zookeeper", watch="once")
    t.create(ann, "/x")
    t.fire(bob, "created", "/x")
    t.fire(bob, "children", "/")
    t.get(bob, "/x", b"", watch="once")
    t.set(ann, "/x", b"1", 1)
    t.fire(bob, "data", "/x")
    t.exists(bob, "/x", there=True, watch="once")
    t.children(bob, "/x", watch="once")
    t.delete(ann, "/x")
    t.fire(bob, "deleted", "/x")
    t.create(ann, "/x")
    t.set(ann, "/x", b"1", 1)
    t.sync(bob)


@good
def a_watch_for_ever_fires_for_everything(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/x", "persistent")
    t.create(ann, "/x")
    t.create(ann, "/x/y")
    t.set(ann, "/x", b"1", 1)
    t.set(ann, "/x/y", b"1", 1)
    t.delete(ann, "/x/y")
    t.delete(ann, "/x")
    for event, back in (("created", 5), ("children", 4), ("data", 3), ("children", 1), ("deleted", 0)):
        t.fire(bob, event, "/x", t.zxid - back)
    t.sync(bob)


@good
def a_watch_of_a_whole_tree(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/", "recursive")
    t.create(ann, "/x")
    t.create(ann, "/x/y")
    t.fire(bob, "created", "/x", t.zxid - 1)
    t.fire(bob, "created", "/x/y")
    t.watch(bob, "/", "recursive", op="unwatch")
    t.delete(ann, "/x/y")
    t.sync(bob)


@good
def an_event_may_still_be_on_its_way(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.exists(bob, "/x", there=False, watch="once")
    before = t.create(ann, "/x") - 1
    t.sync(bob, zxid=before)


@bad(watches.UNEARNED)
def a_watch_fires_twice(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.exists(bob, "/x", there=False, watch="once")
    t.create(ann, "/x")
    t.fire(bob, "created", "/x")
    t.set(ann, "/x", b"1", 1)
    t.fire(bob, "data", "/x")


@bad(watches.UNEARNED)
def nobody_watched(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.exists(bob, "/x", there=False)
    t.create(ann, "/x")
    t.fire(bob, "created", "/x")


@bad(watches.UNEARNED)
def a_read_that_failed_leaves_no_watch(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    call = t.ask(bob, Request("get", "/x", watch="once"))
    t.tell(call, Reply("NO_NODE", zxid=t.zxid))
    t.create(ann, "/x")
    t.fire(bob, "created", "/x")


@bad(watches.UNEARNED)
def a_watch_of_a_tree_hears_of_no_children(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/", "recursive")
    t.create(ann, "/x")
    t.fire(bob, "created", "/x")
    t.fire(bob, "children", "/")


@bad(watches.UNEARNED)
def a_watch_fires_after_it_was_taken_back(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/x", "persistent")
    t.watch(bob, "/x", "", op="unwatch")
    t.create(ann, "/x")
    t.fire(bob, "created", "/x")


@bad(watches.UNEARNED)
def a_watch_fires_without_a_connection(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/x", "persistent")
    t.became(bob, "disconnected")
    t.create(ann, "/x")
    t.fire(bob, "created", "/x")


@bad(watches.MISSED)
def an_event_is_missed(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.exists(bob, "/x", there=False, watch="once")
    t.create(ann, "/x")
    t.sync(bob)


@bad(watches.MISSED)
def the_data_comes_before_the_event(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.exists(bob, "/x", there=False, watch="once")
    t.create(ann, "/x")
    t.exists(bob, "/x", there=True)
    t.fire(bob, "created", "/x")


@bad(watches.MISSED)
def one_of_many_events_is_missed(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/x", "persistent")
    t.create(ann, "/x")
    t.fire(bob, "created", "/x")
    t.set(ann, "/x", b"1", 1)
    t.set(ann, "/x", b"2", 2)
    t.fire(bob, "data", "/x")
    t.sync(bob)


@bad(watches.MISSED)
def events_change_places(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/x", "persistent")
    t.create(ann, "/x")
    t.set(ann, "/x", b"1", 1)
    t.fire(bob, "data", "/x")
    t.fire(bob, "created", "/x", t.zxid - 1)


@bad(watches.MISSED)
def there_is_no_such_watch_they_say(t: Tale) -> None:
    bob = t.client(2)
    t.watch(bob, "/x", "persistent")
    t.watch(bob, "/x", "persistent", op="unwatch", error="NO_WATCHER")


@good
def there_is_no_such_watch(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/x", "persistent")
    t.watch(bob, "/x", "recursive", op="unwatch", error="NO_WATCHER")
    t.watch(bob, "/y", "", op="unwatch", error="NO_WATCHER")
    t.create(ann, "/x")
    t.fire(bob, "created", "/x")
    t.sync(bob)


# -- watches of who was away ---------------------------------------------------------------------------


@good
def who_was_away_is_told_once_of_what_is_different(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.create(ann, "/y")
    t.get(bob, "/x", b"", watch="once")
    t.children(bob, "/y", watch="once")
    t.exists(bob, "/z", there=False, watch="once")
    t.became(bob, "disconnected")
    t.set(ann, "/x", b"1", 1)
    t.set(ann, "/x", b"2", 2)
    t.delete(ann, "/y")
    t.create(ann, "/z")
    t.became(bob, "connected", server=2)
    for event, path in (("data", "/x"), ("created", "/z"), ("deleted", "/y")):
        t.fire(bob, event, path, -1)
    t.sync(bob)


@good
def who_was_away_goes_on_watching_what_is_the_same(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.get(bob, "/x", b"", watch="once")
    t.children(bob, "/x", watch="once")
    t.exists(bob, "/z", there=False, watch="once")
    t.back(bob)
    t.sync(bob)
    t.set(ann, "/x", b"1", 1)
    t.fire(bob, "data", "/x")
    t.create(ann, "/x/y")
    t.fire(bob, "children", "/x")
    t.create(ann, "/z")
    t.fire(bob, "created", "/z")
    t.sync(bob)


@good
def who_was_away_and_watches_for_ever_misses_what_happened_meanwhile(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/x", "persistent")
    t.watch(bob, "/y", "recursive")
    t.became(bob, "disconnected")
    t.create(ann, "/x")
    t.create(ann, "/y")
    t.became(bob, "connected")
    t.sync(bob)
    t.set(ann, "/x", b"1", 1)
    t.fire(bob, "data", "/x")
    t.sync(bob)


@bad(watches.MISSED)
def who_was_away_is_not_told(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.get(bob, "/x", b"", watch="once")
    t.became(bob, "disconnected")
    t.set(ann, "/x", b"1", 1)
    t.became(bob, "connected")
    t.get(bob, "/x", b"1")


@bad(watches.MISSED)
def who_is_back_for_long_misses_an_event(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/x", "persistent")
    t.back(bob)
    t.sync(bob)
    t.create(ann, "/x")
    t.sync(bob)


@bad(watches.UNEARNED)
def who_was_away_is_told_of_nothing(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.get(bob, "/x", b"", watch="once")
    t.back(bob)
    t.fire(bob, "data", "/x", -1)


@good
def a_watch_that_fired_is_not_named_again(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.get(bob, "/x", b"", watch="once")
    t.set(ann, "/x", b"1", 1)
    t.fire(bob, "data", "/x")
    t.back(bob)
    t.set(ann, "/x", b"2", 2)
    t.sync(bob)


# -- watches on a server that jumped -------------------------------------------------------------------


def _jump(t: Tale, server: int) -> None:
    ann, bob = t.client(1), t.client(2, server=server)
    t.create(ann, "/x")
    t.create(ann, "/gone")
    t.watch(bob, "/", "recursive")
    t.set(ann, "/x", b"1", 1)
    t.set(ann, "/x", b"2", 2)
    t.create(ann, "/y")
    t.create(ann, "/never")
    t.delete(ann, "/never")
    t.delete(ann, "/gone")
    t.jumps = [Jump(2, t.zxid)]


@good
def a_server_that_jumped_tells_the_difference(t: Tale) -> None:
    _jump(t, server=2)
    bob = evolve(t.client(3), client=2, session=0x102)
    for event, path in (("deleted", "/gone"), ("created", "/y"), ("data", "/x")):
        t.fire(bob, event, path, t.zxid - 1)
    t.sync(bob)


@bad(watches.MISSED)
def a_server_that_jumped_forgets_a_difference(t: Tale) -> None:
    _jump(t, server=2)
    bob = evolve(t.client(3), client=2, session=0x102)
    for event, path in (("deleted", "/gone"), ("created", "/y")):
        t.fire(bob, event, path, t.zxid - 1)
    t.sync(bob)


@bad(watches.MISSED)
def a_server_that_did_not_jump_tells_the_difference_only(t: Tale) -> None:
    _jump(t, server=1)
    bob = evolve(t.client(3), client=2, session=0x102)
    for event, path in (("deleted", "/gone"), ("created", "/y"), ("data", "/x")):
        t.fire(bob, event, path, t.zxid - 1)
    t.sync(bob)


@good
def nobody_knows_whether_the_server_jumped(t: Tale) -> None:
    a_server_that_jumped_tells_the_difference(t)
    t.jumps = None


@bad(watches.MISSED)
def no_jump_explains_what_was_missed(t: Tale) -> None:
    an_event_is_missed(t)
    t.jumps = None


# -- all at once ---------------------------------------------------------------------------------------


@bad(LINEARIZABLE)
def a_synced_read_is_stale(t: Tale) -> None:
    """No zxid is told with it, so for all that Bob knows the state may be old. But he had synced."""
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x", b"1")
    t.set(ann, "/x", b"2", 1)
    t.sync(bob, zxid=2)
    call = t.ask(bob, Request("get", "/x"))
    t.tell(call, Reply(data=b"1", stat=_stat(3, 3, 0, 1)))


@good
def the_root_is_there_from_the_beginning(t: Tale) -> None:
    ann = t.client(1)
    t.get(ann, "/", b"")
    t.children(ann, "/", "zookeeper")
    t.children(ann, "/zookeeper", "config", "quota")
    t.set(ann, "/", b"1", 1)
    t.get(ann, "/", b"1")


# -- which lost call it was ----------------------------------------------------------------------------


@good
def the_lost_write_behind_another_was_carried_out(t: Tale) -> None:
    """Two lost writes ask for the same. What took effect behind the one between them was the second."""
    ann = t.client(1)
    t.create(ann, "/x")
    t.lose(t.ask(ann, Request("set", "/x", b"1")))
    t.create(ann, "/y")
    t.lose(t.ask(ann, Request("set", "/x", b"1")))
    t.commit(ann, Change(0, 0, "set", "/x", b"1", 1))
    t.back(ann)
    t.get(ann, "/x", b"1")


@good
def an_acknowledged_write_whose_zxid_is_not_known(t: Tale) -> None:
    ann = t.client(1)
    call = t.ask(ann, Request("create", "/x", b""))
    t.commit(ann, Change(0, 0, "create", "/x", b""))
    t.tell(call, Reply(path="/x"))
    t.get(ann, "/x", b"")


@bad(outcomes.ONCE)
def a_refused_write_whose_zxid_is_not_known_was_carried_out(t: Tale) -> None:
    ann = t.client(1)
    call = t.ask(ann, Request("create", "/x", b""))
    t.commit(ann, Change(0, 0, "create", "/x", b""))
    t.tell(call, Reply("NODE_EXISTS"))


@bad(outcomes.ONCE)
def a_lost_delete_became_a_set(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.lose(t.ask(ann, Request("delete", "/x")))
    t.commit(ann, Change(0, 0, "set", "/x", None, 1))


@bad(outcomes.ONCE)
def a_lost_sequential_write_got_anothers_name(t: Tale) -> None:
    ann = t.client(1)
    t.lose(t.ask(ann, Request("create", "/n-", b"", mode="sequential")))
    t.commit(ann, Change(0, 0, "create", "/m-0000000000", b""))


@bad(outcomes.ONCE)
def a_lost_sequential_write_got_no_number(t: Tale) -> None:
    ann = t.client(1)
    t.lose(t.ask(ann, Request("create", "/n-", b"", mode="sequential")))
    t.commit(ann, Change(0, 0, "create", "/n-000000000x", b""))


@bad(outcomes.ONCE)
def a_lost_multi_was_carried_out_by_half(t: Tale) -> None:
    ann = t.client(1)
    t.lose(t.ask(ann, BOTH))
    t.commit(ann, Change(0, 0, "create", "/x", b"1"))


@good
def a_lost_multi_was_carried_out(t: Tale) -> None:
    call, _ = _both(t)
    t.lose(call)
    t.get(t.client(2), "/x", b"2")


# -- what is not judged --------------------------------------------------------------------------------


@good
def what_is_below_zookeeper_is_no_clients_data(t: Tale) -> None:
    """Quotas and the configuration are the servers' own, and follow rules of their own."""
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/", "recursive")
    t.create(ann, "/zookeeper/quota/x", b"1")
    t.get(ann, "/zookeeper/config", b"server.1=...")
    t.refuse(ann, Request("delete", "/zookeeper/quota"), "BAD_ARGUMENTS")
    t.refuse(ann, Request("set", "/zookeeper/config", b""), "NO_NODE")
    t.set(ann, "/zookeeper", b"1", 3)
    t.fire(bob, "data", "/zookeeper/config")
    t.lose(t.ask(ann, Request("delete", "/zookeeper/quota/x")))
    t.commit(ann, Change(0, 0, "delete", "/zookeeper/quota/x"))
    t.lose(t.ask(ann, Request("multi", parts=(Request("delete", "/zookeeper/quota/x"), Request("create", "/y", b"")))))
    t.commit(ann, Change(0, 0, "delete", "/zookeeper/quota/x"), Change(0, 0, "create", "/y", b""))
    t.fire(bob, "created", "/y")
    t.sync(bob)


@good
def a_path_that_is_none_is_refused(t: Tale) -> None:
    ann = t.client(1)
    t.refuse(ann, Request("create", "x", b""), "BAD_ARGUMENTS")
    t.refuse(ann, Request("create", "/x//y", b""), "BAD_ARGUMENTS")
    t.refuse(ann, Request("delete", "/"), "BAD_ARGUMENTS")


@good
def a_check_alone_is_refused(t: Tale) -> None:
    t.refuse(t.client(1), Request("check", "/"), "UNIMPLEMENTED")


@good
def a_multi_of_reads_and_writes_is_refused(t: Tale) -> None:
    ann = t.client(1)
    call = t.ask(ann, Request("multi", parts=(Request("get", "/"), Request("create", "/x", b""))))
    t.tell(call, Reply("MARSHALLING_ERROR", zxid=t.commit(ann, Change(0, 0, "error"))))


@good
def a_multi_of_which_only_the_first_error_is_told(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    call = t.ask(ann, BOTH)
    t.tell(call, Reply("NODE_EXISTS", zxid=t.commit(ann, Change(0, 0, "error"))))


@bad(effects.REFUSED)
def a_multi_is_refused_in_one_word_and_was_right(t: Tale) -> None:
    ann = t.client(1)
    call = t.ask(ann, BOTH)
    t.tell(call, Reply("NODE_EXISTS", zxid=t.commit(ann, Change(0, 0, "error"))))


@good
def a_multi_of_nothing(t: Tale) -> None:
    ann = t.client(1)
    t.tell(t.ask(ann, Request("multi")), Reply(zxid=t.zxid))


@good
def reads_that_failed_for_another_reason(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    t.tell(t.ask(ann, Request("get", "/x")), Reply("NO_AUTH", zxid=t.zxid))
    t.tell(t.ask(ann, Request("multi", parts=(Request("get", "/x"),))), Reply("THROTTLED_OP", zxid=t.zxid))


@good
def a_session_that_was_moved_is_told_so(t: Tale) -> None:
    ann = t.client(1)
    t.create(ann, "/x")
    call = t.ask(ann, Request("multi", parts=(Request("set", "/x", b""), Request("delete", "/x"))))
    t.tell(call, Reply("SESSION_MOVED", zxid=t.commit(ann, Change(0, 0, "error"))))
    t.get(ann, "/x", b"")


@good
def three_clients_write_the_same_node(t: Tale) -> None:
    """Versions are expected, refused, and right."""
    ann, bob, cyd = t.client(1), t.client(2), t.client(3)
    t.create(ann, "/x", b"0")
    t.set(ann, "/x", b"1", 1, expected=0)
    t.refuse(bob, Request("set", "/x", b"2", version=0), "BAD_VERSION")
    t.set(cyd, "/x", b"3", 2, expected=1)
    t.delete(bob, "/x", expected=2)
    t.refuse(ann, Request("set", "/x", b"4", version=2), "NO_NODE")


@good
def who_takes_back_a_watch_that_is_for_once(t: Tale) -> None:
    """Which of the two tables was meant is not said, so that both are believed."""
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.get(bob, "/x", b"", watch="once")
    t.children(bob, "/x", watch="once")
    t.watch(bob, "/x", "once", op="unwatch")
    t.create(ann, "/x/y")
    t.fire(bob, "children", "/x")
    t.sync(bob)
    t.set(ann, "/x", b"1", 1)
    t.sync(bob)


@bad(watches.UNEARNED)
def nobody_watches_the_children_any_more(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    t.children(bob, "/x", watch="once")
    t.watch(bob, "/x", "once", op="unwatch")
    t.create(ann, "/x/y")
    t.fire(bob, "children", "/x")


@good
def a_watch_is_answered_with_an_error(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/x", "persistent", error="NO_AUTH")
    t.watch(bob, "/x", "persistent", op="unwatch", error="NO_AUTH")
    t.create(ann, "/x")
    t.sync(bob)


@good
def an_end_takes_watched_nodes_along(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/e", mode="ephemeral")
    t.create(ann, "/f", mode="ephemeral")
    t.exists(bob, "/e", there=True, watch="once")
    t.children(bob, "/", "e", "f", "zookeeper", watch="once")
    t.watch(bob, "/f", "persistent")
    t.close(ann, "/e", "/f")
    t.fire(bob, "deleted", "/e")
    t.fire(bob, "children", "/")
    t.fire(bob, "deleted", "/f")
    t.sync(bob)


@good
def events_that_bear_no_zxid(t: Tale) -> None:
    """Old servers do not say it."""
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/x", "persistent")
    t.create(ann, "/x")
    t.set(ann, "/x", b"1", 1)
    t.fire(bob, "created", "/x", -1)
    t.fire(bob, "data", "/x", 0)
    t.sync(bob)


@bad(watches.MISSED)
def events_that_bear_no_zxid_change_places(t: Tale) -> None:
    ann, bob = t.client(1), t.client(2)
    t.watch(bob, "/x", "persistent")
    t.create(ann, "/x")
    t.set(ann, "/x", b"1", 1)
    t.fire(bob, "data", "/x", -1)
