"""Quotas in small histories: refused requests, accepted requests, and statistics."""

from __future__ import annotations

from harness.checkers.store import quotas
from harness.checkers.store.case import Case
from harness.history import Change, Event, History, Invoke, Reply, Request, Response

ME = 7
LIMITS, STATS = "/zookeeper/quota/a/zookeeper_limits", "/zookeeper/quota/a/zookeeper_stats"
LIMITED = "count=1,bytes=1=;byteHardLimit=6;countHardLimit=3"
"""The limits of /a. The soft limits are exceeded from the beginning."""


def begun(limits: str = LIMITED, *, counted: bool = True) -> list[Change]:
    changes = [
        Change(1, ME, "open"),
        Change(2, ME, "create", "/a", b"aa"),
        Change(3, ME, "create", "/a/x", b"xx"),
        Change(4, ME, "create", "/zookeeper/quota/a", b""),
        Change(5, ME, "create", LIMITS, limits.encode()),
    ]
    return [*changes, Change(6, ME, "create", STATS, b"")] if counted else changes


def violations(
    request: Request, reply: Reply, *more: Change, begin: list[Change] | None = None, seen: int | None = None
) -> list[str]:
    """Return the violations. `seen`: the zxid that the leader had applied; the default is the last one."""
    changes = [*(begun() if begin is None else begin), *more]
    events: tuple[Event, ...] = (Invoke(10, 1, ME, 1, 1, request), Response(20, 1, ME, 1, reply))
    last = changes[-1].zxid - (1 if more and more[-1].zxid == reply.zxid else 0)
    found = list(quotas.check(Case.of(History(events, tuple(changes))), {reply.zxid: last if seen is None else seen}))
    return [f"{each.invariant}: {each.what.partition(': ')[2]}" for each in found]


def violations_without_prepared(
    request: Request, reply: Reply, *more: Change, begin: list[Change] | None = None
) -> list[str]:
    """Return the violations of a history without the leader's applied zxids."""
    changes = [*(begun() if begin is None else begin), *more]
    events: tuple[Event, ...] = (Invoke(10, 1, ME, 1, 1, request), Response(20, 1, ME, 1, reply))
    return [each.what.partition(": ")[2] for each in quotas.check(Case.of(History(events, tuple(changes))))]


def create(size: int, path: str = "/a/y") -> Request:
    return Request("create", path, b"." * size)


def made(size: int, zxid: int = 9, path: str = "/a/y") -> Change:
    return Change(zxid, ME, "create", path, b"." * size)


def refused(zxid: int = 9) -> tuple[Reply, Change]:
    return Reply("QUOTA_EXCEEDED", zxid), Change(zxid, ME, "error")


def test_request_within_limits_is_accepted() -> None:
    assert violations(create(2), Reply(zxid=9, path="/a/y"), made(2)) == []
    assert violations(create(40, "/b"), Reply(zxid=9, path="/b"), made(40, path="/b")) == []


def test_request_that_exceeds_a_limit_is_refused() -> None:
    assert violations(create(3), *refused()) == []
    (too_strict,) = violations(create(2), *refused())
    assert too_strict.startswith("a quota refuses only what would exceed a hard limit: it was refused by a quota,")
    (too_lax,) = violations(create(3), Reply(zxid=9, path="/a/y"), made(3))
    assert too_lax.endswith("/a has byteHardLimit 6, and 4 + 3 exceed it")


def test_limited_node_counts_itself() -> None:
    begin = [*begun(), made(0, 7, "/a/z")]
    assert violations(create(0), *refused(), begin=begin) == []
    (wrong,) = violations(create(0), Reply(zxid=9, path="/a/y"), made(0), begin=begin)
    assert wrong.endswith("/a has countHardLimit 3, and 3 + 1 exceed it")


def test_outstanding_requests_are_not_counted() -> None:
    begin = [*begun(), made(2, 7, "/a/z")]
    assert violations(create(2), Reply(zxid=9, path="/a/y"), made(2), begin=begin, seen=6) == []
    assert violations(create(2), *refused(), begin=begin) == []
    assert len(violations(create(2), *refused(), begin=begin, seen=6)) == 1


def test_set_counts_the_growth_of_the_data() -> None:
    grown = Request("set", "/a/x", b"....")
    assert violations(grown, Reply(zxid=9), Change(9, ME, "set", "/a/x", b"....", 1)) == []
    assert len(violations(grown, *refused())) == 1
    larger = Request("set", "/a/x", b".....")
    assert violations(larger, *refused()) == []
    assert len(violations(larger, Reply("BAD_VERSION", 9), Change(9, ME, "error"))) == 1, (
        "the limit is checked before the version"
    )


def test_multi_stops_at_the_first_refused_part() -> None:
    both = Request("multi", parts=(create(1), create(9, "/a/z")))
    parts = (Reply(), Reply("QUOTA_EXCEEDED"))
    assert violations(both, Reply(zxid=9, parts=parts), Change(9, ME, "error")) == []
    wrong = (Reply("QUOTA_EXCEEDED"), Reply("RUNTIME_INCONSISTENCY"))
    assert len(violations(both, Reply(zxid=9, parts=wrong), Change(9, ME, "error"))) == 1


def test_soft_limits_refuse_nothing() -> None:
    assert len(violations(create(2), *refused(), begin=begun("count=1,bytes=1"))) == 1


def test_limit_without_statistics_is_not_enforced() -> None:
    done = Reply(zxid=9, path="/a/y"), made(30)
    assert violations(create(30), *done, begin=begun(counted=False)) == []
    assert len(violations(create(30), *refused(), begin=begun(counted=False))) == 1
    gone = [*begun(), Change(7, ME, "delete", LIMITS)]
    assert violations(create(30), *done, begin=gone) == []


def test_changes_without_a_limit_do_not_count() -> None:
    again = [
        *begun(),
        Change(6, ME, "delete", LIMITS),
        made(2, 7, "/a/z"),
        Change(8, ME, "create", LIMITS, LIMITED.encode()),
    ]
    assert violations(create(2), Reply(zxid=9, path="/a/y"), made(2), begin=again) == []
    assert violations(create(3), *refused(), begin=again) == []
    assert len(violations(create(2), *refused(), begin=again)) == 1


def test_read_statistics_match_the_tree() -> None:
    looks = Request("get", STATS)
    assert violations(looks, Reply(zxid=6, data=b"count=2,bytes=4")) == []
    (wrong,) = violations(looks, Reply(zxid=6, data=b"count=2,bytes=5"))
    assert wrong.startswith("quota statistics match the tree: the reply has {'count': 2, 'bytes': 5} for /a, which")
    assert violations(looks, Reply("NO_NODE", zxid=6)) == []


def test_without_the_leaders_zxid_any_applied_state_is_possible() -> None:
    assert violations_without_prepared(create(3), *refused()) == []
    (never,) = violations_without_prepared(create(2), *refused())
    assert never == "it was refused by a quota, but no limit was exceeded in any state that the leader may have applied"
    less = Change(7, ME, "delete", "/a/x")
    assert violations_without_prepared(create(3), refused()[0], less, refused()[1]) == [], (
        "the leader may not have applied the deletion yet"
    )
    assert violations_without_prepared(create(3), Reply(zxid=9, path="/a/y"), made(3)) == [], (
        "the leader may not have applied the limit yet"
    )
    assert violations_without_prepared(create(2, "/b"), *refused()) != []
    assert violations_without_prepared(Request("multi", "", parts=(create(2),)), *refused()) == []
