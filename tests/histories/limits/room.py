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
from tests.histories.tale import Tale, Who

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
class Room(Tale):
    prepared: dict[int, int] = field(factory=dict)
    """By the zxid of each write: how far its leader had come when it was judged."""

    def limit(self, path: str, limits: str = HARD) -> None:
        for node, data in ((f"{BELOW}{path}", ""), (limits_of(path), limits), (stats_of(path), "")):
            self.makes(node, data)

    def makes(self, path: str, data: str = "") -> int:
        return self.commit(None, Change(0, 0, "create", path, data.encode()))

    def goes(self, path: str) -> int:
        return self.commit(None, Change(0, 0, "delete", path))

    def does(self, who: Who, request: Request, seen: int | None = None) -> None:
        """`seen` is all that there was, unless it is said."""
        self._answered(who, request, self.zxid if seen is None else seen, ())

    def fails(self, who: Who, request: Request, *errors: str, seen: int | None = None) -> None:
        self._answered(who, request, self.zxid if seen is None else seen, errors or (FULL,))

    def _answered(self, who: Who, request: Request, seen: int, errors: tuple[str, ...]) -> None:
        call = self.ask(who, request)
        parts = request.parts or (request,)
        changes = [Change(0, 0, each.op, each.path, each.data, 1) for each in parts]
        zxid = self.commit(who, *([Change(0, 0, "error")] if errors else changes))
        self.prepared[zxid] = seen
        if request.parts:
            told = errors or ("",) * len(parts)
            self.tell(call, Reply(zxid=zxid, parts=tuple(Reply(error) for error in told)))
        else:
            self.tell(call, Reply("".join(errors), zxid=zxid))


Tell: TypeAlias = Callable[[Room, Who, bool], None]


@frozen
class Told:
    name: str
    invariant: str
    tell: Tell
    outside: bool
    """It is wrong for everybody, not only for those who see how far a leader had come."""

    def said(self, bad: bool) -> list[Broken]:
        room = self._told(bad)
        return list(check(Case.of(room.history()), room.prepared))

    def said_outside(self, bad: bool) -> list[Broken]:
        return list(check(Case.of(self._told(bad).history())))

    def _told(self, bad: bool) -> Room:
        """Of /a, in which are two nodes with four bytes."""
        room = Room()
        ann = room.client(1)
        room.makes("/a", "aa")
        room.makes("/a/x", "xx")
        room.makes("/b")
        self.tell(room, ann, bad)
        return room


STORIES: Final[dict[str, Told]] = {}


def told(invariant: str, *, outside: bool = False) -> Callable[[Tell], Tell]:
    def keep(tell: Tell) -> Tell:
        STORIES[tell.__name__] = Told(tell.__name__, invariant, tell, outside)
        return tell

    return keep


def create(path: str, size: int) -> Request:
    return Request("create", path, b"." * size)


def multi(*parts: Request) -> Request:
    return Request("multi", parts=parts)


# -- what is let in --------------------------------------------------------------------------------------


@told(LIMITED)
def as_many_bytes_as_there_is_room_for(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    t.does(ann, create("/a/y", 3 if bad else 2))


@told(LIMITED)
def as_many_nodes_as_there_is_room_for(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    if bad:
        t.makes("/a/x/z")
    t.does(ann, create("/a/y", 0))


@told(LIMITED)
def whose_limit_is_nothing(t: Room, ann: Who, bad: bool) -> None:
    """A limit below nothing is none."""
    t.limit("/a", f"byteHardLimit={0 if bad else -1},countHardLimit=-1")
    t.does(ann, create("/a/y", 1))


@told(LIMITED)
def who_has_a_name_that_begins_in_the_same_way_is_not_limited(t: Room, ann: Who, bad: bool) -> None:
    t.makes("/ab", "bbbbbbbb")
    t.makes("/ab/c", "cccccc")
    t.limit("/a")
    t.does(ann, create("/a/y" if bad else "/ab/y", 9))


@told(LIMITED)
def deep_within_a_limit(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    t.makes("/a/x/y", "y")
    t.does(ann, Request("set", "/a/x/y", b"yyyy" if bad else b"yy"))


@told(LIMITED)
def a_set_needs_room_for_what_it_adds(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    t.does(ann, Request("set", "/a/x", b"....." if bad else b"...."))


@told(LIMITED)
def a_set_makes_no_node(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a", "countHardLimit=2")
    t.does(ann, Request("set", "/a/x", b"." * 9))
    if bad:
        t.does(ann, create("/a/y", 0))


@told(LIMITED)
def null_takes_no_room(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a", "byteHardLimit=5")
    t.does(ann, Request("create", "/a/y", None))
    t.does(ann, Request("set", "/a/y", b".." if bad else b"."))
    t.does(ann, Request("set", "/a/y", None))


@told(LIMITED)
def what_adds_nothing_needs_no_room(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a", "byteHardLimit=2,countHardLimit=1")
    t.does(ann, Request("set", "/a/x", b".." + b"." * bad))


@told(LIMITED)
def what_only_looks_and_what_goes_needs_no_room(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a", "countHardLimit=2,byteHardLimit=0")
    t.does(ann, Request("delete", "/a/x"))
    t.does(ann, Request("setacl", "/a", acl="world"))
    if bad:
        t.does(ann, create("/a/x", 1))
    t.fails(ann, Request("delete", "/b"), "NOT_EMPTY")


@told(LIMITED)
def a_leader_counts_what_it_has_applied(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    before = t.zxid
    full = t.makes("/a/z", "zz")
    t.does(ann, create("/a/y", 2), seen=full if bad else before)


@told(LIMITED)
def what_goes_makes_room(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    before = t.zxid
    t.goes("/a/x")
    t.does(ann, create("/a/y", 4), seen=before if bad else None)


@told(LIMITED)
def nobody_knows_how_far_a_leader_had_come(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    t.does(ann, create("/a/y", 9))
    if not bad:
        del t.prepared[t.zxid]


@told(LIMITED)
def what_other_checks_refuse_counts_if_they_come_later(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    t.fails(ann, Request("set", "/a/x", b"." * 9, version=7), "BAD_VERSION" if bad else "NO_AUTH")
    t.fails(ann, Request("set", "/a/x", b"...", version=7), "BAD_VERSION")
    t.fails(ann, Request("set", "/a/none", b"."), "NO_NODE")


# -- what is refused -------------------------------------------------------------------------------------


@told(LIMITED, outside=True)
def refused_for_bytes(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    t.fails(ann, create("/a/y", 2 if bad else 3))
    t.fails(ann, Request("set", "/a/none", b"..."))


@told(LIMITED, outside=True)
def refused_for_nodes(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a", "countHardLimit=3" if bad else "countHardLimit=2")
    t.fails(ann, create("/a/y", 9))


@told(LIMITED, outside=True)
def refused_for_the_limit_of_another(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    t.fails(ann, create("/b/y" if bad else "/a/y", 9))


@told(LIMITED, outside=True)
def refused_though_only_others_are_limited(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a", "count=1,bytes=1" if bad else HARD)
    t.fails(ann, create("/a/y", 9))


@told(LIMITED, outside=True)
def refused_where_nothing_was_ever_limited(t: Room, ann: Who, bad: bool) -> None:
    if bad:
        t.fails(ann, create("/a/y", 9))
    t.does(ann, create("/a/z", 9))


@told(LIMITED)
def a_multi_is_refused_where_nothing_was_ever_limited(t: Room, ann: Who, bad: bool) -> None:
    t.fails(ann, multi(create("/a/y", 1), create("/a/z", 1)), FULL if bad else "NODE_EXISTS", LATER)


@told(LIMITED)
def refused_for_what_the_leader_had_not_applied(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    before = t.zxid
    t.makes("/a/z", "zz")
    t.fails(ann, create("/a/y", 2), seen=before if bad else None)


@told(LIMITED, outside=True)
def refused_for_what_is_gone(t: Room, ann: Who, bad: bool) -> None:
    """Perhaps the leader had not applied that yet."""
    if not bad:
        t.limit("/a")
    t.goes("/a/x")
    if bad:
        t.limit("/a")
    t.fails(ann, create("/a/y", 3), seen=None if bad else t.zxid - 1)


@told(LIMITED, outside=True)
def refused_for_what_comes_later(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    if not bad:
        t.makes("/a/z", "zz")
    t.fails(ann, create("/a/y", 1))
    t.does(ann, create("/a/w", 2), seen=t.zxid - 2)
    t.makes("/a/v", "vvvvvv")


@told(LIMITED, outside=True)
def refused_though_it_is_as_long_as_before(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a", "byteHardLimit=1")
    t.fails(ann, Request("set", "/a/x", b".." if bad else b"..."))


@told(LIMITED, outside=True)
def refused_though_it_adds_nothing(t: Room, ann: Who, bad: bool) -> None:
    """However much more is there than may be."""
    t.limit("/a", "byteHardLimit=1,countHardLimit=1")
    t.fails(ann, Request("delete", "/a/x"), FULL if bad else "NO_AUTH")


# -- several at once -------------------------------------------------------------------------------------


@told(LIMITED)
def parts_are_judged_by_what_was_applied_before_all_of_them(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    t.does(ann, multi(create("/a/y", 2), create("/a/z", 3 if bad else 2)))


@told(LIMITED)
def a_part_grows_what_the_one_before_has_made(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    t.does(ann, multi(create("/a/y", 2), Request("set", "/a/y", b"." * (5 if bad else 4))))


@told(LIMITED)
def the_second_part_is_refused(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    t.fails(ann, multi(create("/a/y", 1), create("/a/z", 2 if bad else 3), create("/a/w", 9)), "", FULL, LATER)


@told(LIMITED)
def the_first_part_is_refused(t: Room, ann: Who, bad: bool) -> None:
    """Behind it nothing can be said: what comes next may be about what was not made."""
    t.limit("/a")
    t.fails(ann, multi(create("/a/y", 2 if bad else 3), create("/a/y/z", 9)), FULL, LATER)
    t.fails(ann, multi(Request("set", "/none", b"."), create("/a/z", 1)), "NO_NODE", LATER)


@told(LIMITED)
def a_part_that_only_looks(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    t.does(ann, multi(Request("check", "/a/x"), create("/a/y", 3 if bad else 2)))


@told(LIMITED)
def what_comes_behind_a_limit_that_is_changed_is_not_judged(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    change, much = Request("set", limits_of("/a"), b"byteHardLimit=99"), create("/a/y", 9)
    t.does(ann, multi(*((much, change) if bad else (change, much))))


@told(LIMITED)
def what_is_no_path_is_not_judged(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    t.fails(ann, create("nothing", 1), "BAD_ARGUMENTS")
    t.fails(ann, Request("create", "", None), "BAD_ARGUMENTS")
    if bad:
        t.fails(ann, create("/a/y", 2))


@told(LIMITED)
def a_multi_that_was_refused_as_a_whole(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    call = t.ask(ann, multi(create("/a/y", 1)))
    zxid = t.commit(ann, Change(0, 0, "error"))
    t.prepared[zxid] = zxid - 1
    t.tell(call, Reply("" if bad else FULL, zxid, parts=(Reply(FULL),) if bad else ()))


# -- limits that come and go -----------------------------------------------------------------------------


@told(LIMITED)
def the_limit_is_gone(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    before = t.zxid
    t.goes(limits_of("/a"))
    t.does(ann, create("/a/y", 9), seen=before if bad else None)


@told(LIMITED)
def the_limit_is_another_one(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    before = t.zxid
    t.commit(None, Change(0, 0, "set", limits_of("/a"), b"byteHardLimit=7", 1))
    t.does(ann, create("/a/y", 3), seen=before if bad else None)


@told(LIMITED)
def who_may_change_a_limit_is_no_limit(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    t.commit(None, Change(0, 0, "setacl", limits_of("/a"), version=1, acl="world"))
    t.does(ann, create("/a/y", 3 if bad else 2))


@told(LIMITED)
def a_limit_of_nothing_is_none(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a", HARD if bad else "")
    t.does(ann, create("/a/y", 9))


@told(LIMITED)
def where_nothing_is_counted_nothing_is_limited(t: Room, ann: Who, bad: bool) -> None:
    t.makes(f"{BELOW}/a")
    t.makes(limits_of("/a"), HARD)
    if bad:
        t.fails(ann, create("/a/y", 9))
    t.does(ann, create("/a/y", 9))


@told(LIMITED)
def it_is_not_counted_any_more(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    before = t.zxid
    t.goes(stats_of("/a"))
    t.does(ann, create("/a/y", 9), seen=before if bad else None)


@told(LIMITED)
def changes_without_a_limit_do_not_count(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    t.goes(limits_of("/a"))
    t.goes("/a/x")
    t.makes(limits_of("/a"), HARD)
    t.does(ann, create("/a/y", 3 if bad else 2))


@told(LIMITED)
def it_is_counted_anew(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    t.goes(stats_of("/a"))
    t.makes(stats_of("/a"))
    t.does(ann, create("/a/y", 3 if bad else 2))


@told(LIMITED)
def limit_and_count_begin_at_once(t: Room, ann: Who, bad: bool) -> None:
    """And the count with null, as some clients make it."""
    t.commit(None, *(Change(0, 0, "create", path, HARD.encode()) for path in (f"{BELOW}/a", limits_of("/a"))))
    t.goes(limits_of("/a"))
    made = Change(0, 0, "create", limits_of("/a"), HARD.encode()), Change(0, 0, "create", stats_of("/a"), None)
    t.commit(None, *made)
    t.does(ann, create("/a/y", 3 if bad else 2))


@told(LIMITED)
def the_limit_is_written_again_and_again(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    for version in (1, 2, 3):
        t.commit(None, Change(0, 0, "set", limits_of("/a"), HARD.encode(), version))
    t.does(ann, create("/a/y", 3 if bad else 2))


@told(LIMITED)
def a_client_has_written_where_it_is_counted(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    before = t.zxid
    t.commit(ann, Change(0, 0, "set", stats_of("/a"), b"count=1,bytes=1", 1))
    t.does(ann, create("/a/y", 9), seen=before if bad else None)
    t.fails(ann, create("/a/z", 0), seen=before if bad else None)


@told(LIMITED)
def limits_within_limits(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    t.limit("/a/x", "byteHardLimit=3")
    t.does(ann, create("/a/y", 2))
    t.does(ann, create("/a/x/z", 2 if bad else 1))


@told(LIMITED)
def a_change_counts_at_the_nearest_limit_only(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    t.limit("/a/x", "byteHardLimit=99")
    t.makes("/a/x/z", "zzzz")
    t.does(ann, create("/a/y", 3 if bad else 2))


@told(LIMITED)
def the_outer_limit_counts_again_without_the_inner_one(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    t.limit("/a/x", "byteHardLimit=99")
    if bad:
        t.goes(limits_of("/a/x"))
    t.makes("/a/x/z", "z")
    t.does(ann, create("/a/y", 2))


@told(LIMITED)
def a_limit_without_statistics_covers_its_subtree(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    if not bad:
        t.makes(limits_of("/a/x"))
    t.does(ann, create("/a/x/z", 9))


@told(LIMITED)
def an_expired_session_takes_its_nodes_out_of_the_count(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    t.makes("/a/e", "ee")
    if not bad:
        t.commit(None, Change(0, 0, "close", gone=("/a/e",)))
    t.does(ann, create("/a/y", 2))


@told(LIMITED)
def two_that_are_limited_beside_each_other(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    t.limit("/b")
    t.does(ann, create("/b/y", 6))
    t.does(ann, create("/a/y", 3 if bad else 2))


@told(LIMITED)
def a_node_of_a_client_that_bears_the_name_of_limits(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a", "byteHardLimit=4")
    t.makes("/a/x/zookeeper_limits")
    if bad:
        t.does(ann, create("/a/y", 1))


# -- what is told ----------------------------------------------------------------------------------------


def looks(t: Room, who: Who, path: str, reply: Reply, op: str = "get") -> None:
    t.tell(t.ask(who, Request(op, path)), reply)


@told(COUNTED)
def what_is_told_is_there(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    before = t.zxid
    t.makes("/a/y", "")
    looks(t, ann, stats_of("/a"), Reply(zxid=before, data=b"count=2,bytes=4"))
    looks(t, ann, stats_of("/a"), Reply(zxid=t.zxid, data=b"count=2,bytes=4" if bad else b"count=3,bytes=4"))


@told(COUNTED)
def bytes_that_are_told_are_there(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    t.commit(ann, Change(0, 0, "create", "/a/y", None))
    t.commit(ann, Change(0, 0, "create", "/ab", b"b"))
    t.goes("/a/x")
    looks(t, ann, stats_of("/a"), Reply(zxid=t.zxid, data=b"count=2,bytes=3" if bad else b"count=2,bytes=2"))


@told(COUNTED)
def nothing_is_told(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    looks(t, ann, stats_of("/a"), Reply(zxid=t.zxid, data=None) if bad else Reply("NO_AUTH", t.zxid))
    looks(t, ann, stats_of("/a"), Reply(zxid=t.zxid), "exists")


@told(COUNTED)
def others_are_told_something_else(t: Room, ann: Who, bad: bool) -> None:
    """Also one that bears that name, and is a client's own."""
    t.limit("/a")
    for path in ("/a", "/a/zookeeper_stats", limits_of("/a")):
        looks(t, ann, path, Reply(zxid=t.zxid, data=b"aa"))
    if bad:
        looks(t, ann, stats_of("/a"), Reply(zxid=t.zxid, data=b"aa"))


@told(COUNTED)
def statistics_stay_without_a_limit(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    t.goes(limits_of("/a"))
    t.makes("/a/z", "zz")
    looks(t, ann, stats_of("/a"), Reply(zxid=t.zxid, data=b"count=3,bytes=6" if bad else b"count=2,bytes=4"))


@told(COUNTED)
def statistics_that_a_client_wrote_are_not_judged(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    before = t.zxid
    t.commit(ann, Change(0, 0, "set", stats_of("/a"), b"count=7,bytes=7", 1))
    looks(t, ann, stats_of("/a"), Reply(zxid=before if bad else t.zxid, data=b"count=7,bytes=7"))
    t.goes(stats_of("/a"))
    looks(t, ann, stats_of("/a"), Reply(zxid=t.zxid, data=b"count=7,bytes=7"))


@told(COUNTED)
def nobody_answers(t: Room, ann: Who, bad: bool) -> None:
    t.limit("/a")
    t.lose(t.ask(ann, create("/a/y", 9)))
    t.lose(t.ask(ann, Request("get", stats_of("/a"))))
    looks(t, ann, stats_of("/a"), Reply(zxid=t.zxid, data=b"bytes=4" if bad else b"count=2,bytes=4"))
