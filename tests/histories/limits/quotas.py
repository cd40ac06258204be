"""Subtrees that are limited, in stories by hand: each as it should be, and with one thing that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from attrs import define, field, frozen

from harness.checkers.broken import Broken
from harness.checkers.store.case import Case
from harness.checkers.store.model import SYSTEM
from harness.checkers.store.quotas import COUNTED, LIMITED, check
from harness.history import Change, Reply, Request
from tests.histories.history_builder import ClientSession, HistoryBuilder

FULL: Final = "QUOTA_EXCEEDED"
LATER: Final = "RUNTIME_INCONSISTENCY"
BELOW: Final = f"{SYSTEM}/quota"
HARD: Final = "count=1,bytes=1,countHardLimit=3,byteHardLimit=6"
"""With soft limits, too, which forbid nothing."""


def limits_of(path: str) -> str:
    return f"{BELOW}{path}/zookeeper_limits"


def stats_of(path: str) -> str:
    return f"{BELOW}{path}/zookeeper_stats"


@define
class QuotaHistory(HistoryBuilder):
    prepared: dict[int, int] = field(factory=dict)
    """By the zxid of each write: how far its leader had come when it was judged."""

    def limit(self, path: str, limits: str = HARD) -> None:
        for node, data in ((f"{BELOW}{path}", ""), (limits_of(path), limits), (stats_of(path), "")):
            self.makes(node, data)

    def makes(self, path: str, data: str = "") -> int:
        return self.commit(None, Change(0, 0, "create", path, data.encode()))

    def goes(self, path: str) -> int:
        return self.commit(None, Change(0, 0, "delete", path))

    def does(self, client: ClientSession, request: Request, seen: int | None = None) -> None:
        """`seen` is all that there was, unless it is violations."""
        self._answered(client, request, self.zxid if seen is None else seen, ())

    def fails(self, client: ClientSession, request: Request, *errors: str, seen: int | None = None) -> None:
        self._answered(client, request, self.zxid if seen is None else seen, errors or (FULL,))

    def _answered(self, client: ClientSession, request: Request, seen: int, errors: tuple[str, ...]) -> None:
        call = self.invoke(client, request)
        parts = request.parts or (request,)
        changes = [Change(0, 0, each.op, each.path, each.data, 1) for each in parts]
        zxid = self.commit(client, *([Change(0, 0, "error")] if errors else changes))
        self.prepared[zxid] = seen
        if request.parts:
            told = errors or ("",) * len(parts)
            self.respond(call, Reply(zxid=zxid, parts=tuple(Reply(error) for error in told)))
        else:
            self.respond(call, Reply("".join(errors), zxid=zxid))


Build: TypeAlias = Callable[[QuotaHistory, ClientSession, bool], None]


@frozen
class Example:
    name: str
    invariant: str
    build: Build
    outside: bool
    """It is wrong for everybody, not only for those who see how far a leader had come."""

    def violations(self, bad: bool) -> list[Broken]:
        quotas = self._told(bad)
        return list(check(Case.of(quotas.history()), quotas.prepared))

    def violations_without_prepared(self, bad: bool) -> list[Broken]:
        return list(check(Case.of(self._told(bad).history())))

    def _told(self, bad: bool) -> QuotaHistory:
        """Of /a, in which are two nodes with four bytes."""
        quotas = QuotaHistory()
        ann = quotas.client(1)
        quotas.makes("/a", "aa")
        quotas.makes("/a/x", "xx")
        quotas.makes("/b")
        self.build(quotas, ann, bad)
        return quotas


EXAMPLES: Final[dict[str, Example]] = {}


def example(invariant: str, *, outside: bool = False) -> Callable[[Build], Build]:
    def add(build: Build) -> Build:
        EXAMPLES[build.__name__] = Example(build.__name__, invariant, build, outside)
        return build

    return add


def create(path: str, size: int) -> Request:
    return Request("create", path, b"." * size)


def multi(*parts: Request) -> Request:
    return Request("multi", parts=parts)


# -- what is let in --------------------------------------------------------------------------------------


@example(LIMITED)
def as_many_bytes_as_there_is_room_for(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.does(ann, create("/a/y", 3 if bad else 2))


@example(LIMITED)
def as_many_nodes_as_there_is_room_for(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    if bad:
        t.makes("/a/x/z")
    t.does(ann, create("/a/y", 0))


@example(LIMITED)
def whose_limit_is_nothing(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    """A limit below nothing is none."""
    t.limit("/a", f"byteHardLimit={0 if bad else -1},countHardLimit=-1")
    t.does(ann, create("/a/y", 1))


@example(LIMITED)
def who_has_a_name_that_begins_in_the_same_way_is_not_limited(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.makes("/ab", "bbbbbbbb")
    t.makes("/ab/c", "cccccc")
    t.limit("/a")
    t.does(ann, create("/a/y" if bad else "/ab/y", 9))


@example(LIMITED)
def deep_within_a_limit(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.makes("/a/x/y", "y")
    t.does(ann, Request("set", "/a/x/y", b"yyyy" if bad else b"yy"))


@example(LIMITED)
def a_set_needs_room_for_what_it_adds(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.does(ann, Request("set", "/a/x", b"....." if bad else b"...."))


@example(LIMITED)
def a_set_makes_no_node(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a", "countHardLimit=2")
    t.does(ann, Request("set", "/a/x", b"." * 9))
    if bad:
        t.does(ann, create("/a/y", 0))


@example(LIMITED)
def null_takes_no_room(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a", "byteHardLimit=5")
    t.does(ann, Request("create", "/a/y", None))
    t.does(ann, Request("set", "/a/y", b".." if bad else b"."))
    t.does(ann, Request("set", "/a/y", None))


@example(LIMITED)
def what_adds_nothing_needs_no_room(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a", "byteHardLimit=2,countHardLimit=1")
    t.does(ann, Request("set", "/a/x", b".." + b"." * bad))


@example(LIMITED)
def what_only_looks_and_what_goes_needs_no_room(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a", "countHardLimit=2,byteHardLimit=0")
    t.does(ann, Request("delete", "/a/x"))
    t.does(ann, Request("setacl", "/a", acl="world"))
    if bad:
        t.does(ann, create("/a/x", 1))
    t.fails(ann, Request("delete", "/b"), "NOT_EMPTY")


@example(LIMITED)
def a_leader_counts_what_it_has_applied(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    before = t.zxid
    full = t.makes("/a/z", "zz")
    t.does(ann, create("/a/y", 2), seen=full if bad else before)


@example(LIMITED)
def what_goes_makes_room(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    before = t.zxid
    t.goes("/a/x")
    t.does(ann, create("/a/y", 4), seen=before if bad else None)


@example(LIMITED)
def nobody_knows_how_far_a_leader_had_come(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.does(ann, create("/a/y", 9))
    if not bad:
        del t.prepared[t.zxid]


@example(LIMITED)
def what_other_checks_refuse_counts_if_they_come_later(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.fails(ann, Request("set", "/a/x", b"." * 9, version=7), "BAD_VERSION" if bad else "NO_AUTH")
    t.fails(ann, Request("set", "/a/x", b"...", version=7), "BAD_VERSION")
    t.fails(ann, Request("set", "/a/none", b"."), "NO_NODE")


# -- what is refused -------------------------------------------------------------------------------------


@example(LIMITED, outside=True)
def refused_for_bytes(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.fails(ann, create("/a/y", 2 if bad else 3))
    t.fails(ann, Request("set", "/a/none", b"..."))


@example(LIMITED, outside=True)
def refused_for_nodes(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a", "countHardLimit=3" if bad else "countHardLimit=2")
    t.fails(ann, create("/a/y", 9))


@example(LIMITED, outside=True)
def refused_for_the_limit_of_another(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.fails(ann, create("/b/y" if bad else "/a/y", 9))


@example(LIMITED, outside=True)
def refused_though_only_others_are_limited(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a", "count=1,bytes=1" if bad else HARD)
    t.fails(ann, create("/a/y", 9))


@example(LIMITED, outside=True)
def refused_where_nothing_was_ever_limited(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    if bad:
        t.fails(ann, create("/a/y", 9))
    t.does(ann, create("/a/z", 9))


@example(LIMITED)
def a_multi_is_refused_where_nothing_was_ever_limited(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.fails(ann, multi(create("/a/y", 1), create("/a/z", 1)), FULL if bad else "NODE_EXISTS", LATER)


@example(LIMITED)
def refused_for_what_the_leader_had_not_applied(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    before = t.zxid
    t.makes("/a/z", "zz")
    t.fails(ann, create("/a/y", 2), seen=before if bad else None)


@example(LIMITED, outside=True)
def refused_for_what_is_gone(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    """Perhaps the leader had not applied that yet."""
    if not bad:
        t.limit("/a")
    t.goes("/a/x")
    if bad:
        t.limit("/a")
    t.fails(ann, create("/a/y", 3), seen=None if bad else t.zxid - 1)


@example(LIMITED, outside=True)
def refused_for_what_comes_later(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    if not bad:
        t.makes("/a/z", "zz")
    t.fails(ann, create("/a/y", 1))
    t.does(ann, create("/a/w", 2), seen=t.zxid - 2)
    t.makes("/a/v", "vvvvvv")


@example(LIMITED, outside=True)
def refused_though_it_is_as_long_as_before(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a", "byteHardLimit=1")
    t.fails(ann, Request("set", "/a/x", b".." if bad else b"..."))


@example(LIMITED, outside=True)
def refused_though_it_adds_nothing(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    """However much more is there than may be."""
    t.limit("/a", "byteHardLimit=1,countHardLimit=1")
    t.fails(ann, Request("delete", "/a/x"), FULL if bad else "NO_AUTH")


# -- several at once -------------------------------------------------------------------------------------


@example(LIMITED)
def parts_are_judged_by_what_was_applied_before_all_of_them(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.does(ann, multi(create("/a/y", 2), create("/a/z", 3 if bad else 2)))


@example(LIMITED)
def a_part_grows_what_the_one_before_has_made(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.does(ann, multi(create("/a/y", 2), Request("set", "/a/y", b"." * (5 if bad else 4))))


@example(LIMITED)
def the_second_part_is_refused(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.fails(ann, multi(create("/a/y", 1), create("/a/z", 2 if bad else 3), create("/a/w", 9)), "", FULL, LATER)


@example(LIMITED)
def the_first_part_is_refused(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    """Behind it nothing can be violations: what comes next may be about what was not made."""
    t.limit("/a")
    t.fails(ann, multi(create("/a/y", 2 if bad else 3), create("/a/y/z", 9)), FULL, LATER)
    t.fails(ann, multi(Request("set", "/none", b"."), create("/a/z", 1)), "NO_NODE", LATER)


@example(LIMITED)
def a_part_that_only_looks(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.does(ann, multi(Request("check", "/a/x"), create("/a/y", 3 if bad else 2)))


@example(LIMITED)
def what_comes_behind_a_limit_that_is_changed_is_not_judged(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    change, much = Request("set", limits_of("/a"), b"byteHardLimit=99"), create("/a/y", 9)
    t.does(ann, multi(*((much, change) if bad else (change, much))))


@example(LIMITED)
def what_is_no_path_is_not_judged(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.fails(ann, create("nothing", 1), "BAD_ARGUMENTS")
    t.fails(ann, Request("create", "", None), "BAD_ARGUMENTS")
    if bad:
        t.fails(ann, create("/a/y", 2))


@example(LIMITED)
def a_multi_that_was_refused_as_a_whole(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    call = t.invoke(ann, multi(create("/a/y", 1)))
    zxid = t.commit(ann, Change(0, 0, "error"))
    t.prepared[zxid] = zxid - 1
    t.respond(call, Reply("" if bad else FULL, zxid, parts=(Reply(FULL),) if bad else ()))


# -- limits that come and go -----------------------------------------------------------------------------


@example(LIMITED)
def the_limit_is_gone(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    before = t.zxid
    t.goes(limits_of("/a"))
    t.does(ann, create("/a/y", 9), seen=before if bad else None)


@example(LIMITED)
def the_limit_is_another_one(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    before = t.zxid
    t.commit(None, Change(0, 0, "set", limits_of("/a"), b"byteHardLimit=7", 1))
    t.does(ann, create("/a/y", 3), seen=before if bad else None)


@example(LIMITED)
def who_may_change_a_limit_is_no_limit(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.commit(None, Change(0, 0, "setacl", limits_of("/a"), version=1, acl="world"))
    t.does(ann, create("/a/y", 3 if bad else 2))


@example(LIMITED)
def a_limit_of_nothing_is_none(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a", HARD if bad else "")
    t.does(ann, create("/a/y", 9))


@example(LIMITED)
def where_nothing_is_counted_nothing_is_limited(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.makes(f"{BELOW}/a")
    t.makes(limits_of("/a"), HARD)
    if bad:
        t.fails(ann, create("/a/y", 9))
    t.does(ann, create("/a/y", 9))


@example(LIMITED)
def it_is_not_counted_any_more(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    before = t.zxid
    t.goes(stats_of("/a"))
    t.does(ann, create("/a/y", 9), seen=before if bad else None)


@example(LIMITED)
def what_came_while_there_was_no_limit_may_not_be_counted(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    before = t.zxid
    t.goes(limits_of("/a"))
    t.makes(limits_of("/a"), HARD)
    for size in (3, 2):
        request = create("/a/y", size)
        t.fails(ann, request, seen=before if bad else None)
        t.does(ann, request, seen=before if bad else None)


@example(LIMITED)
def it_is_counted_anew(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.goes(stats_of("/a"))
    t.makes(stats_of("/a"))
    t.does(ann, create("/a/y", 3 if bad else 2))


@example(LIMITED)
def limit_and_count_begin_at_once(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    """And the count with null, as some clients make it."""
    t.commit(None, *(Change(0, 0, "create", path, HARD.encode()) for path in (f"{BELOW}/a", limits_of("/a"))))
    t.goes(limits_of("/a"))
    made = Change(0, 0, "create", limits_of("/a"), HARD.encode()), Change(0, 0, "create", stats_of("/a"), None)
    t.commit(None, *made)
    t.does(ann, create("/a/y", 3 if bad else 2))


@example(LIMITED)
def the_limit_is_written_again_and_again(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    for version in (1, 2, 3):
        t.commit(None, Change(0, 0, "set", limits_of("/a"), HARD.encode(), version))
    t.does(ann, create("/a/y", 3 if bad else 2))


@example(LIMITED)
def a_client_has_written_where_it_is_counted(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    before = t.zxid
    t.commit(ann, Change(0, 0, "set", stats_of("/a"), b"count=1,bytes=1", 1))
    t.does(ann, create("/a/y", 9), seen=before if bad else None)
    t.fails(ann, create("/a/z", 0), seen=before if bad else None)


@example(LIMITED)
def limits_within_limits(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    """The inner one holds, and of the outer one nobody says what it counts."""
    t.limit("/a")
    t.limit("/a/x", "byteHardLimit=3")
    t.does(ann, create("/a/y", 9))
    t.does(ann, create("/a/x/z", 2 if bad else 1))


@example(LIMITED)
def a_limit_within_a_limit_that_nobody_counts_for(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    if not bad:
        t.makes(limits_of("/a/x"))
    t.does(ann, create("/a/y", 9))


@example(LIMITED)
def two_that_are_limited_beside_each_other(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.limit("/b")
    t.does(ann, create("/b/y", 6))
    t.does(ann, create("/a/y", 3 if bad else 2))


@example(LIMITED)
def a_node_of_a_client_that_bears_the_name_of_limits(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a", "byteHardLimit=4")
    t.makes("/a/x/zookeeper_limits")
    if bad:
        t.does(ann, create("/a/y", 1))


# -- what is told ----------------------------------------------------------------------------------------


def looks(t: QuotaHistory, client: ClientSession, path: str, reply: Reply, op: str = "get") -> None:
    t.respond(t.invoke(client, Request(op, path)), reply)


@example(COUNTED)
def what_is_told_is_there(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    before = t.zxid
    t.makes("/a/y", "")
    looks(t, ann, stats_of("/a"), Reply(zxid=before, data=b"count=2,bytes=4"))
    looks(t, ann, stats_of("/a"), Reply(zxid=t.zxid, data=b"count=2,bytes=4" if bad else b"count=3,bytes=4"))


@example(COUNTED)
def bytes_that_are_told_are_there(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.commit(ann, Change(0, 0, "create", "/a/y", None))
    t.commit(ann, Change(0, 0, "create", "/ab", b"b"))
    t.goes("/a/x")
    looks(t, ann, stats_of("/a"), Reply(zxid=t.zxid, data=b"count=2,bytes=3" if bad else b"count=2,bytes=2"))


@example(COUNTED)
def nothing_is_told(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    looks(t, ann, stats_of("/a"), Reply(zxid=t.zxid, data=None) if bad else Reply("NO_AUTH", t.zxid))
    looks(t, ann, stats_of("/a"), Reply(zxid=t.zxid), "exists")


@example(COUNTED)
def others_are_told_something_else(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    """Also one that bears that name, and is a client's own."""
    t.limit("/a")
    for path in ("/a", "/a/zookeeper_stats", limits_of("/a")):
        looks(t, ann, path, Reply(zxid=t.zxid, data=b"aa"))
    if bad:
        looks(t, ann, stats_of("/a"), Reply(zxid=t.zxid, data=b"aa"))


@example(COUNTED)
def where_it_is_not_certain_what_was_counted_anything_may_be_told(
    t: QuotaHistory, ann: ClientSession, bad: bool
) -> None:
    t.limit("/a")
    before = t.zxid
    t.goes(limits_of("/a"))
    looks(t, ann, stats_of("/a"), Reply(zxid=before if bad else t.zxid, data=b"count=7,bytes=7"))
    t.goes(stats_of("/a"))
    looks(t, ann, stats_of("/a"), Reply(zxid=t.zxid, data=b"count=7,bytes=7"))


@example(COUNTED)
def nobody_answers(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.lose(t.invoke(ann, create("/a/y", 9)))
    t.lose(t.invoke(ann, Request("get", stats_of("/a"))))
    looks(t, ann, stats_of("/a"), Reply(zxid=t.zxid, data=b"bytes=4" if bad else b"count=2,bytes=4"))
