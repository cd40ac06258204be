"""Handwritten examples of quotas: each legal, and with one violation."""

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
"""The limits of a subtree. The soft ones forbid nothing."""


def limits_of(path: str) -> str:
    return f"{BELOW}{path}/zookeeper_limits"


def stats_of(path: str) -> str:
    return f"{BELOW}{path}/zookeeper_stats"


@define
class QuotaHistory(HistoryBuilder):
    prepared: dict[int, int] = field(factory=dict)
    """The zxid that the leader had applied when it checked each write, by the zxid of the write."""

    def limit(self, path: str, limits: str = HARD) -> None:
        for node, data in ((f"{BELOW}{path}", ""), (limits_of(path), limits), (stats_of(path), "")):
            self.makes(node, data)

    def makes(self, path: str, data: str = "") -> int:
        return self.commit(None, Change(0, 0, "create", path, data.encode()))

    def goes(self, path: str) -> int:
        return self.commit(None, Change(0, 0, "delete", path))

    def does(self, client: ClientSession, request: Request, seen: int | None = None) -> None:
        """Carry the request out. `seen`: the leader's applied zxid; the default is the last one."""
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
            results = errors or ("",) * len(parts)
            self.respond(call, Reply(zxid=zxid, parts=tuple(Reply(error) for error in results)))
        else:
            self.respond(call, Reply("".join(errors), zxid=zxid))


Build: TypeAlias = Callable[[QuotaHistory, ClientSession, bool], None]


@frozen
class Example:
    name: str
    invariant: str
    build: Build
    outside: bool
    """True if the history is illegal even without the leader's applied zxids."""

    def violations(self, bad: bool) -> list[Broken]:
        quotas = self._told(bad)
        return list(check(Case.of(quotas.history()), quotas.prepared))

    def violations_without_prepared(self, bad: bool) -> list[Broken]:
        return list(check(Case.of(self._told(bad).history())))

    def _told(self, bad: bool) -> QuotaHistory:
        """Return the violations. The subtree /a has two nodes with four bytes at the start."""
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


# -- accepted requests -----------------------------------------------------------------------------------


@example(LIMITED)
def bytes_up_to_the_limit(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.does(ann, create("/a/y", 3 if bad else 2))


@example(LIMITED)
def nodes_up_to_the_limit(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    if bad:
        t.makes("/a/x/z")
    t.does(ann, create("/a/y", 0))


@example(LIMITED)
def limit_of_zero(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    """A negative limit is no limit."""
    t.limit("/a", f"byteHardLimit={0 if bad else -1},countHardLimit=-1")
    t.does(ann, create("/a/y", 1))


@example(LIMITED)
def path_with_the_same_prefix_is_not_limited(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.makes("/ab", "bbbbbbbb")
    t.makes("/ab/c", "cccccc")
    t.limit("/a")
    t.does(ann, create("/a/y" if bad else "/ab/y", 9))


@example(LIMITED)
def deep_node_is_limited(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.makes("/a/x/y", "y")
    t.does(ann, Request("set", "/a/x/y", b"yyyy" if bad else b"yy"))


@example(LIMITED)
def set_counts_the_added_bytes(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.does(ann, Request("set", "/a/x", b"....." if bad else b"...."))


@example(LIMITED)
def set_makes_no_node(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a", "countHardLimit=2")
    t.does(ann, Request("set", "/a/x", b"." * 9))
    if bad:
        t.does(ann, create("/a/y", 0))


@example(LIMITED)
def null_data_counts_nothing(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a", "byteHardLimit=5")
    t.does(ann, Request("create", "/a/y", None))
    t.does(ann, Request("set", "/a/y", b".." if bad else b"."))
    t.does(ann, Request("set", "/a/y", None))


@example(LIMITED)
def request_that_adds_nothing_is_accepted(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a", "byteHardLimit=2,countHardLimit=1")
    t.does(ann, Request("set", "/a/x", b".." + b"." * bad))


@example(LIMITED)
def reads_and_deletions_are_accepted(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a", "countHardLimit=2,byteHardLimit=0")
    t.does(ann, Request("delete", "/a/x"))
    t.does(ann, Request("setacl", "/a", acl="world"))
    if bad:
        t.does(ann, create("/a/x", 1))
    t.fails(ann, Request("delete", "/b"), "NOT_EMPTY")


@example(LIMITED)
def leader_counts_what_it_has_applied(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    before = t.zxid
    full = t.makes("/a/z", "zz")
    t.does(ann, create("/a/y", 2), seen=full if bad else before)


@example(LIMITED)
def deletion_makes_room(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    before = t.zxid
    t.goes("/a/x")
    t.does(ann, create("/a/y", 4), seen=before if bad else None)


@example(LIMITED)
def unknown_applied_zxid_is_not_checked(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.does(ann, create("/a/y", 9))
    if not bad:
        del t.prepared[t.zxid]


@example(LIMITED)
def error_of_a_later_check_passes_the_quota(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.fails(ann, Request("set", "/a/x", b"." * 9, version=7), "BAD_VERSION" if bad else "NO_AUTH")
    t.fails(ann, Request("set", "/a/x", b"...", version=7), "BAD_VERSION")
    t.fails(ann, Request("set", "/a/none", b"."), "NO_NODE")


# -- refused requests ------------------------------------------------------------------------------------


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
def multi_is_refused_where_nothing_was_ever_limited(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.fails(ann, multi(create("/a/y", 1), create("/a/z", 1)), FULL if bad else "NODE_EXISTS", LATER)


@example(LIMITED)
def refused_for_what_the_leader_had_not_applied(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    before = t.zxid
    t.makes("/a/z", "zz")
    t.fails(ann, create("/a/y", 2), seen=before if bad else None)


@example(LIMITED, outside=True)
def refused_for_a_deleted_node(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    """The leader may not have applied the deletion yet."""
    if not bad:
        t.limit("/a")
    t.goes("/a/x")
    if bad:
        t.limit("/a")
    t.fails(ann, create("/a/y", 3), seen=None if bad else t.zxid - 1)


@example(LIMITED, outside=True)
def refused_for_a_later_node(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    if not bad:
        t.makes("/a/z", "zz")
    t.fails(ann, create("/a/y", 1))
    t.does(ann, create("/a/w", 2), seen=t.zxid - 2)
    t.makes("/a/v", "vvvvvv")


@example(LIMITED, outside=True)
def refused_without_growth(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a", "byteHardLimit=1")
    t.fails(ann, Request("set", "/a/x", b".." if bad else b"..."))


@example(LIMITED, outside=True)
def refused_though_it_adds_nothing(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    """The subtree may exceed the limit already."""
    t.limit("/a", "byteHardLimit=1,countHardLimit=1")
    t.fails(ann, Request("delete", "/a/x"), FULL if bad else "NO_AUTH")


# -- multi -----------------------------------------------------------------------------------------------


@example(LIMITED)
def parts_are_checked_against_the_state_before_the_multi(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.does(ann, multi(create("/a/y", 2), create("/a/z", 3 if bad else 2)))


@example(LIMITED)
def part_sets_a_node_of_an_earlier_part(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.does(ann, multi(create("/a/y", 2), Request("set", "/a/y", b"." * (5 if bad else 4))))


@example(LIMITED)
def second_part_is_refused(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.fails(ann, multi(create("/a/y", 1), create("/a/z", 2 if bad else 3), create("/a/w", 9)), "", FULL, LATER)


@example(LIMITED)
def first_part_is_refused(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    """Later parts are not checked: they may refer to nodes that were not created."""
    t.limit("/a")
    t.fails(ann, multi(create("/a/y", 2 if bad else 3), create("/a/y/z", 9)), FULL, LATER)
    t.fails(ann, multi(Request("set", "/none", b"."), create("/a/z", 1)), "NO_NODE", LATER)


@example(LIMITED)
def multi_with_a_check(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.does(ann, multi(Request("check", "/a/x"), create("/a/y", 3 if bad else 2)))


@example(LIMITED)
def parts_after_a_changed_limit_are_not_checked(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    change, much = Request("set", limits_of("/a"), b"byteHardLimit=99"), create("/a/y", 9)
    t.does(ann, multi(*((much, change) if bad else (change, much))))


@example(LIMITED)
def invalid_path_is_not_checked(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.fails(ann, create("nothing", 1), "BAD_ARGUMENTS")
    t.fails(ann, Request("create", "", None), "BAD_ARGUMENTS")
    if bad:
        t.fails(ann, create("/a/y", 2))


@example(LIMITED)
def multi_that_was_refused_as_a_whole(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    call = t.invoke(ann, multi(create("/a/y", 1)))
    zxid = t.commit(ann, Change(0, 0, "error"))
    t.prepared[zxid] = zxid - 1
    t.respond(call, Reply("" if bad else FULL, zxid, parts=(Reply(FULL),) if bad else ()))


# -- changed limits --------------------------------------------------------------------------------------


@example(LIMITED)
def limit_is_gone(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    before = t.zxid
    t.goes(limits_of("/a"))
    t.does(ann, create("/a/y", 9), seen=before if bad else None)


@example(LIMITED)
def limit_is_another_one(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    before = t.zxid
    t.commit(None, Change(0, 0, "set", limits_of("/a"), b"byteHardLimit=7", 1))
    t.does(ann, create("/a/y", 3), seen=before if bad else None)


@example(LIMITED)
def acl_of_a_limit_is_no_limit(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.commit(None, Change(0, 0, "setacl", limits_of("/a"), version=1, acl="world"))
    t.does(ann, create("/a/y", 3 if bad else 2))


@example(LIMITED)
def empty_limit_is_no_limit(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a", HARD if bad else "")
    t.does(ann, create("/a/y", 9))


@example(LIMITED)
def limit_without_statistics_is_not_enforced(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.makes(f"{BELOW}/a")
    t.makes(limits_of("/a"), HARD)
    if bad:
        t.fails(ann, create("/a/y", 9))
    t.does(ann, create("/a/y", 9))


@example(LIMITED)
def statistics_are_deleted(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    before = t.zxid
    t.goes(stats_of("/a"))
    t.does(ann, create("/a/y", 9), seen=before if bad else None)


@example(LIMITED)
def changes_without_a_limit_do_not_count(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.goes(limits_of("/a"))
    t.goes("/a/x")
    t.makes(limits_of("/a"), HARD)
    t.does(ann, create("/a/y", 3 if bad else 2))


@example(LIMITED)
def statistics_are_created_again(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.goes(stats_of("/a"))
    t.makes(stats_of("/a"))
    t.does(ann, create("/a/y", 3 if bad else 2))


@example(LIMITED)
def limit_and_count_begin_at_once(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    """The statistics node has null data, as some clients write it."""
    t.commit(None, *(Change(0, 0, "create", path, HARD.encode()) for path in (f"{BELOW}/a", limits_of("/a"))))
    t.goes(limits_of("/a"))
    made = Change(0, 0, "create", limits_of("/a"), HARD.encode()), Change(0, 0, "create", stats_of("/a"), None)
    t.commit(None, *made)
    t.does(ann, create("/a/y", 3 if bad else 2))


@example(LIMITED)
def limit_is_written_again_and_again(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    for version in (1, 2, 3):
        t.commit(None, Change(0, 0, "set", limits_of("/a"), HARD.encode(), version))
    t.does(ann, create("/a/y", 3 if bad else 2))


@example(LIMITED)
def client_has_written_the_statistics(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    before = t.zxid
    t.commit(ann, Change(0, 0, "set", stats_of("/a"), b"count=1,bytes=1", 1))
    t.does(ann, create("/a/y", 9), seen=before if bad else None)
    t.fails(ann, create("/a/z", 0), seen=before if bad else None)


@example(LIMITED)
def limits_within_limits(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.limit("/a/x", "byteHardLimit=3")
    t.does(ann, create("/a/y", 2))
    t.does(ann, create("/a/x/z", 2 if bad else 1))


@example(LIMITED)
def a_change_counts_at_the_nearest_limit_only(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.limit("/a/x", "byteHardLimit=99")
    t.makes("/a/x/z", "zzzz")
    t.does(ann, create("/a/y", 3 if bad else 2))


@example(LIMITED)
def the_outer_limit_counts_again_without_the_inner_one(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.limit("/a/x", "byteHardLimit=99")
    if bad:
        t.goes(limits_of("/a/x"))
    t.makes("/a/x/z", "z")
    t.does(ann, create("/a/y", 2))


@example(LIMITED)
def a_limit_without_statistics_covers_its_subtree(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    if not bad:
        t.makes(limits_of("/a/x"))
    t.does(ann, create("/a/x/z", 9))


@example(LIMITED)
def an_expired_session_takes_its_nodes_out_of_the_count(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.makes("/a/e", "ee")
    if not bad:
        t.commit(None, Change(0, 0, "close", gone=("/a/e",)))
    t.does(ann, create("/a/y", 2))


@example(LIMITED)
def two_that_are_limited_beside_each_other(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.limit("/b")
    t.does(ann, create("/b/y", 6))
    t.does(ann, create("/a/y", 3 if bad else 2))


@example(LIMITED)
def clients_node_with_the_name_of_limits(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a", "byteHardLimit=4")
    t.makes("/a/x/zookeeper_limits")
    if bad:
        t.does(ann, create("/a/y", 1))


# -- statistics ------------------------------------------------------------------------------------------


def looks(t: QuotaHistory, client: ClientSession, path: str, reply: Reply, op: str = "get") -> None:
    t.respond(t.invoke(client, Request(op, path)), reply)


@example(COUNTED)
def statistics_match_the_nodes(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    before = t.zxid
    t.makes("/a/y", "")
    looks(t, ann, stats_of("/a"), Reply(zxid=before, data=b"count=2,bytes=4"))
    looks(t, ann, stats_of("/a"), Reply(zxid=t.zxid, data=b"count=2,bytes=4" if bad else b"count=3,bytes=4"))


@example(COUNTED)
def statistics_match_the_bytes(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.commit(ann, Change(0, 0, "create", "/a/y", None))
    t.commit(ann, Change(0, 0, "create", "/ab", b"b"))
    t.goes("/a/x")
    looks(t, ann, stats_of("/a"), Reply(zxid=t.zxid, data=b"count=2,bytes=3" if bad else b"count=2,bytes=2"))


@example(COUNTED)
def statistics_are_empty(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    looks(t, ann, stats_of("/a"), Reply(zxid=t.zxid, data=None) if bad else Reply("NO_AUTH", t.zxid))
    looks(t, ann, stats_of("/a"), Reply(zxid=t.zxid), "exists")


@example(COUNTED)
def other_reads_are_not_checked(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    """Also a client's own node with that name."""
    t.limit("/a")
    for path in ("/a", "/a/zookeeper_stats", limits_of("/a")):
        looks(t, ann, path, Reply(zxid=t.zxid, data=b"aa"))
    if bad:
        looks(t, ann, stats_of("/a"), Reply(zxid=t.zxid, data=b"aa"))


@example(COUNTED)
def statistics_stay_without_a_limit(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.goes(limits_of("/a"))
    t.makes("/a/z", "zz")
    looks(t, ann, stats_of("/a"), Reply(zxid=t.zxid, data=b"count=3,bytes=6" if bad else b"count=2,bytes=4"))


@example(COUNTED)
def statistics_that_a_client_wrote_are_not_judged(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    before = t.zxid
    t.commit(ann, Change(0, 0, "set", stats_of("/a"), b"count=7,bytes=7", 1))
    looks(t, ann, stats_of("/a"), Reply(zxid=before if bad else t.zxid, data=b"count=7,bytes=7"))
    t.goes(stats_of("/a"))
    looks(t, ann, stats_of("/a"), Reply(zxid=t.zxid, data=b"count=7,bytes=7"))


@example(COUNTED)
def read_without_a_reply(t: QuotaHistory, ann: ClientSession, bad: bool) -> None:
    t.limit("/a")
    t.lose(t.invoke(ann, create("/a/y", 9)))
    t.lose(t.invoke(ann, Request("get", stats_of("/a"))))
    looks(t, ann, stats_of("/a"), Reply(zxid=t.zxid, data=b"bytes=4" if bad else b"count=2,bytes=4"))
