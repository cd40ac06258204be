"""Limits on subtrees, by small histories: what is refused for one, what is let in, and what is counted."""

from __future__ import annotations

from harness.checkers.store import quotas
from harness.checkers.store.case import Case
from harness.history import Change, Event, History, Invoke, Reply, Request, Response

ME = 7
LIMITS, STATS = "/zookeeper/quota/a/zookeeper_limits", "/zookeeper/quota/a/zookeeper_stats"
LIMITED = "count=1,bytes=1=;byteHardLimit=6;countHardLimit=3"
"""The soft limits are passed from the beginning."""


def begun(limits: str = LIMITED, *, counted: bool = True) -> list[Change]:
    changes = [
        Change(1, ME, "open"),
        Change(2, ME, "create", "/a", b"aa"),
        Change(3, ME, "create", "/a/x", b"xx"),
        Change(4, ME, "create", "/zookeeper/quota/a", b""),
        Change(5, ME, "create", LIMITS, limits.encode()),
    ]
    return [*changes, Change(6, ME, "create", STATS, b"")] if counted else changes


def said(
    request: Request, reply: Reply, *more: Change, begin: list[Change] | None = None, seen: int | None = None
) -> list[str]:
    """`seen`: what the leader had applied; by default all."""
    changes = [*(begun() if begin is None else begin), *more]
    events: tuple[Event, ...] = (Invoke(10, 1, ME, 1, 1, request), Response(20, 1, ME, 1, reply))
    last = changes[-1].zxid - (1 if more and more[-1].zxid == reply.zxid else 0)
    found = list(quotas.check(Case.of(History(events, tuple(changes))), {reply.zxid: last if seen is None else seen}))
    return [f"{each.invariant}: {each.what.partition(': ')[2]}" for each in found]


def said_of_outside(request: Request, reply: Reply, *more: Change, begin: list[Change] | None = None) -> list[str]:
    """Where nobody sees what the leader had applied."""
    changes = [*(begun() if begin is None else begin), *more]
    events: tuple[Event, ...] = (Invoke(10, 1, ME, 1, 1, request), Response(20, 1, ME, 1, reply))
    return [each.what.partition(": ")[2] for each in quotas.check(Case.of(History(events, tuple(changes))))]


def create(size: int, path: str = "/a/y") -> Request:
    return Request("create", path, b"." * size)


def made(size: int, zxid: int = 9, path: str = "/a/y") -> Change:
    return Change(zxid, ME, "create", path, b"." * size)


def refused(zxid: int = 9) -> tuple[Reply, Change]:
    return Reply("QUOTA_EXCEEDED", zxid), Change(zxid, ME, "error")


def test_what_fits_is_done() -> None:
    assert said(create(2), Reply(zxid=9, path="/a/y"), made(2)) == []
    assert said(create(40, "/b"), Reply(zxid=9, path="/b"), made(40, path="/b")) == []


def test_what_does_not_fit_is_refused() -> None:
    assert said(create(3), *refused()) == []
    (too_strict,) = said(create(2), *refused())
    assert too_strict.startswith("a quota refuses only what would exceed a hard limit: it was refused for a limit,")
    (too_lax,) = said(create(3), Reply(zxid=9, path="/a/y"), made(3))
    assert too_lax.endswith("by which it was judged, /a had byteHardLimit 6, and 4 + 3 is more")


def test_nodes_are_counted_with_that_which_is_limited() -> None:
    begin = [*begun(), made(0, 7, "/a/z")]
    assert said(create(0), *refused(), begin=begin) == []
    (wrong,) = said(create(0), Reply(zxid=9, path="/a/y"), made(0), begin=begin)
    assert wrong.endswith("/a had countHardLimit 3, and 3 + 1 is more")


def test_what_the_leader_had_not_applied_is_not_counted() -> None:
    begin = [*begun(), made(2, 7, "/a/z")]
    assert said(create(2), Reply(zxid=9, path="/a/y"), made(2), begin=begin, seen=6) == []
    assert said(create(2), *refused(), begin=begin) == []
    assert len(said(create(2), *refused(), begin=begin, seen=6)) == 1


def test_a_set_counts_by_how_much_it_grows() -> None:
    grown = Request("set", "/a/x", b"....")
    assert said(grown, Reply(zxid=9), Change(9, ME, "set", "/a/x", b"....", 1)) == []
    assert len(said(grown, *refused())) == 1
    larger = Request("set", "/a/x", b".....")
    assert said(larger, *refused()) == []
    assert len(said(larger, Reply("BAD_VERSION", 9), Change(9, ME, "error"))) == 1, "the limit is looked at first"


def test_parts_of_a_multi_stop_at_the_first_that_is_refused() -> None:
    both = Request("multi", parts=(create(1), create(9, "/a/z")))
    parts = (Reply(), Reply("QUOTA_EXCEEDED"))
    assert said(both, Reply(zxid=9, parts=parts), Change(9, ME, "error")) == []
    wrong = (Reply("QUOTA_EXCEEDED"), Reply("RUNTIME_INCONSISTENCY"))
    assert len(said(both, Reply(zxid=9, parts=wrong), Change(9, ME, "error"))) == 1


def test_soft_limits_refuse_nothing() -> None:
    assert len(said(create(2), *refused(), begin=begun("count=1,bytes=1"))) == 1


def test_where_nothing_is_counted_nothing_is_limited() -> None:
    done = Reply(zxid=9, path="/a/y"), made(30)
    assert said(create(30), *done, begin=begun(counted=False)) == []
    assert len(said(create(30), *refused(), begin=begun(counted=False))) == 1
    gone = [*begun(), Change(7, ME, "delete", LIMITS)]
    assert said(create(30), *done, begin=gone) == []


def test_changes_without_a_limit_do_not_count() -> None:
    again = [
        *begun(),
        Change(6, ME, "delete", LIMITS),
        made(2, 7, "/a/z"),
        Change(8, ME, "create", LIMITS, LIMITED.encode()),
    ]
    assert said(create(2), Reply(zxid=9, path="/a/y"), made(2), begin=again) == []
    assert said(create(3), *refused(), begin=again) == []
    assert len(said(create(2), *refused(), begin=again)) == 1


def test_who_looks_is_told_what_is_there() -> None:
    looks = Request("get", STATS)
    assert said(looks, Reply(zxid=6, data=b"count=2,bytes=4")) == []
    (wrong,) = said(looks, Reply(zxid=6, data=b"count=2,bytes=5"))
    assert wrong.startswith("quota statistics match the tree: it was told {'count': 2, 'bytes': 5} of /a, where")
    assert said(looks, Reply("NO_NODE", zxid=6)) == []


def test_who_does_not_see_the_leader_allows_for_all_that_it_may_have_applied() -> None:
    assert said_of_outside(create(3), *refused()) == []
    (never,) = said_of_outside(create(2), *refused())
    assert never == "it was refused for a limit, and whatever had been applied when it was judged, none is passed"
    less = Change(7, ME, "delete", "/a/x")
    assert said_of_outside(create(3), refused()[0], less, refused()[1]) == [], "that may not have been applied yet"
    assert said_of_outside(create(3), Reply(zxid=9, path="/a/y"), made(3)) == [], "nor the limit"
    assert said_of_outside(create(2, "/b"), *refused()) != []
    assert said_of_outside(Request("multi", "", parts=(create(2),)), *refused()) == []
