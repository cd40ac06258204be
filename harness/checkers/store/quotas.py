"""Quotas: a request is refused exactly if it would exceed a hard limit, and the statistics match the tree.

A leader compares a request with the state that it has applied, without outstanding transactions. A history does not
contain that state. Some simulations report it: `prepared` has the leader's applied zxid for each transaction. Without
it, a refusal is wrong only if the request was within all limits in every possible state.

A model computes the statistics. A change counts only at the nearest limited path from its own path up, so a limited
subtree within a limited one counts apart from then on. Changes without a limit do not count. The model knows nothing
about statistics that a client has written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from harness.checkers.broken import Broken
from harness.checkers.store.case import Call, Case, by_call, parts_of
from harness.checkers.store.model import SYSTEM, Moment, of_the_system, parent_of
from harness.history import Change, Reply, Request

LIMITED: Final = "a quota refuses only what would exceed a hard limit"
COUNTED: Final = "quota statistics match the tree"
REFUSED: Final = "QUOTA_EXCEEDED"
BELOW: Final = f"{SYSTEM}/quota"
LIMITS, STATS = "zookeeper_limits", "zookeeper_stats"
_PAIR: Final = re.compile(r"(\w+)=(-?\d+)")
_BEHIND_THE_LIMIT: Final = ("", "BAD_VERSION")
"""The results of a request that has passed the check of the limits."""


def numbers(data: bytes) -> dict[str, int]:
    return {key: int(value) for key, value in _PAIR.findall(data.decode("utf-8", "replace"))}


Counted: TypeAlias = tuple[int, int]
"""The numbers of nodes and bytes."""


class Quotas:
    """The limited subtrees and their contents at each zxid."""

    def __init__(self, changes: tuple[Change, ...]) -> None:
        self._made: dict[str, list[tuple[int, bytes | None]]] = {}
        """The writes below `BELOW`, by path, each with its zxid. None: a deletion."""
        self.limited: dict[str, bool] = {}
        """All subtrees that have ever had a limit: true if they have it now."""
        self._sizes: dict[str, int] = {}
        self._statistics: dict[str, list[tuple[int, Counted | None]]] = {}
        """The statistics of each path that ever had any, with the zxids at which they changed."""
        for change in changes:
            for gone in change.gone:
                if gone in self._sizes:
                    self._count(change.zxid, gone, -1, -self._sizes.pop(gone))
            if change.kind not in ("create", "set", "delete"):
                continue
            if change.path.startswith(f"{BELOW}/"):
                self._change_quota(change)
            elif change.kind == "delete":
                self._count(change.zxid, change.path, -1, -self._sizes.pop(change.path, 0))
            else:
                size, created = len(change.data or b""), change.kind == "create"
                before = 0 if created else self._sizes.get(change.path, 0)
                self._sizes[change.path] = size
                self._count(change.zxid, change.path, int(created), size - before)

    def _count(self, zxid: int, path: str, nodes: int, size: int) -> None:
        while not self.limited.get(path):
            if path == parent_of(path):
                return
            path = parent_of(path)
        before = self._statistics.get(path, [(0, None)])[-1][1]
        if path != "/" and before is not None:
            self._statistics[path].append((zxid, (before[0] + nodes, before[1] + size)))

    def _change_quota(self, change: Change) -> None:
        data = None if change.kind == "delete" else change.data or b""
        self._made.setdefault(change.path, []).append((change.zxid, data))
        path, _, name = change.path.removeprefix(BELOW).rpartition("/")
        if name == LIMITS:
            self.limited[path] = change.kind == "create" or (change.kind == "set" and self.limited.get(path, False))
        elif name == STATS:
            inside = [size for each, size in self._sizes.items() if each == path or each.startswith(f"{path}/")]
            now = (len(inside), sum(inside)) if change.kind == "create" else None
            self._statistics.setdefault(path, []).append((change.zxid, now))

    def _writes_of(self, path: str, zxid: int) -> list[tuple[int, bytes]]:
        """Return the writes of the node that exists at `zxid`, its creation first; none if it does not exist."""
        writes: list[tuple[int, bytes]] = []
        for at, data in self._made.get(path, ()):
            if at <= zxid:
                writes = [] if data is None else [*writes, (at, data)]
        return writes

    def covering(self, path: str, zxid: int) -> tuple[str, dict[str, int]] | None:
        """Return the nearest limited subtree, with its limits."""
        while path != parent_of(path):
            writes = self._writes_of(f"{BELOW}{path}/{LIMITS}", zxid)
            if writes:
                return path, numbers(writes[-1][1])
            path = parent_of(path)
        return None

    def used(self, path: str, zxid: int) -> Counted | None:
        """Return the counted nodes and bytes at this zxid, or None if a client has written the statistics."""
        found = None
        for at, counted in self._statistics.get(path, ()):
            if at > zxid:
                break
            found = counted
        return found

    def exceeded(self, path: str, zxid: int, nodes: int, size: int) -> str | None:
        """Return the limit that a change of the path would exceed; "" if none, None if that is uncertain."""
        covering = self.covering(path, zxid)
        if covering is None:
            return ""
        limited, limits = covering
        if not self._writes_of(f"{BELOW}{limited}/{STATS}", zxid):
            return ""
        used = self.used(limited, zxid)
        if used is None:
            return None
        for key, more, there in (("countHardLimit", nodes, used[0]), ("byteHardLimit", size, used[1])):
            limit = limits.get(key)
            if limit is not None and more and 0 <= limit < there + more:
                return f"{limited} has {key} {limit}, and {there} + {more} exceed it"
        return ""


def check(case: Case, prepared: Mapping[int, int] | None = None) -> Iterator[Broken]:
    quotas = Quotas(case.history.changes)
    for call in case.calls.all:
        if call.reply is None or not (quotas.limited or _refused(call.reply)):
            continue
        if call.write:
            yield from _write(case, call, quotas, prepared)
        elif quotas.limited:
            yield from _check_statistics(call, quotas)


def _refused(reply: Reply) -> bool:
    return REFUSED in (reply.error, *(part.error for part in reply.parts))


def _write(case: Case, call: Call, quotas: Quotas, prepared: Mapping[int, int] | None) -> Iterator[Broken]:
    reply = call.reply
    assert reply is not None
    if prepared is None:
        yield from _refused_in_every_state(case, call, quotas)
        return
    if reply.zxid not in prepared:
        return
    given = [part.error for part in call.answers]
    seen = prepared[reply.zxid]
    moment = case.replay.before(reply.zxid)
    for request, error in zip(parts_of(call.request), given, strict=False):
        if of_the_system(request.path) or not request.path.startswith("/"):
            return
        right = quotas.exceeded(request.path, seen, *_more(request, moment))
        if error == REFUSED and right == "":
            what = f"it was refused by a quota, but no limit was exceeded at the leader's zxid {seen:#x}"
            yield by_call(LIMITED, call, what, *case.changes_at(reply.zxid))
        elif error in _BEHIND_THE_LIMIT and right:
            what = f"it was not refused by a quota, but at the leader's zxid {seen:#x} {right}"
            yield by_call(LIMITED, call, what, *case.changes_at(reply.zxid))
        if error:
            return
        moment.apply(moment.change_for(request, call.invoke.session))


def _refused_in_every_state(case: Case, call: Call, quotas: Quotas) -> Iterator[Broken]:
    """Check single requests only: earlier parts of a multi may have filled a subtree."""
    reply, request = call.reply, call.request
    assert reply is not None
    if reply.error != REFUSED or request.op == "multi":
        return
    more = _more(request, case.replay.before(reply.zxid))
    seen = [zxid for zxid in case.replay.order if zxid < reply.zxid]
    if all(quotas.exceeded(request.path, each, *more) == "" for each in seen):
        what = "it was refused by a quota, but no limit was exceeded in any state that the leader may have applied"
        yield by_call(LIMITED, call, what, *case.changes_at(reply.zxid))


def _more(request: Request, moment: Moment) -> tuple[int, int]:
    """Return the numbers of nodes and bytes that a request adds; zeros if it neither creates nor sets."""
    size = len(request.data or b"")
    if request.op == "create":
        return 1, size
    node = moment.get(request.path)
    there = len(node.data or b"") if node is not None else 0
    return 0, size - there if request.op == "set" else 0


def _check_statistics(call: Call, quotas: Quotas) -> Iterator[Broken]:
    reply, path = call.reply, call.request.path
    assert reply is not None
    limited = path.removeprefix(BELOW).removesuffix(f"/{STATS}")
    if call.request.op != "get" or reply.error or path != f"{BELOW}{limited}/{STATS}":
        return
    right, reported = quotas.used(limited, reply.zxid), numbers(reply.data or b"")
    if right is not None and (reported.get("count"), reported.get("bytes")) != right:
        what = f"the reply has {reported} for {limited}, which has {right[0]} nodes with {right[1]} bytes"
        yield by_call(COUNTED, call, what)
