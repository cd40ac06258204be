"""The times at which an ensemble must serve, and those at which it cannot. The oracle computes them from the script.

Each begin and end of a fault divides the time of a script. Within a segment the faults do not change, and the segment
has one of three kinds:

must      the servers that are certainly up, undisturbed, intact and connected with each other form a quorum
must not  no server is connected in both directions with enough servers for a quorum
unknown   any other segment: the oracle abstains

The script does not say which server a fault of the leader, or of the first follower, hits. For `must` the oracle
assumes that the fault removes one more server, the one that hurts most; for `must not`, that the fault does nothing.
After a fault that waits for a moment of the run (`CrashIn`, `When`, `FailDisk`), and after a change of the membership,
everything is unknown. A lost or damaged disk counts as lost for good. A wrong clock, a slow disk or a bad link may have
any effect. The oracle reports two violations: no service in a `must` segment for longer than the bound, and a commit in
a `must not` segment of a transaction that was proposed in that segment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from itertools import combinations, pairwise
from typing import Final

from attrs import frozen

from harness import faults
from harness.checkers.judge import Checker
from harness.checkers.oracle_state import OracleState, ServerState, Violation
from harness.quorums import decide
from zab.core.zxid import ServerId, Zxid, show

STARTS_MS: Final = 60
"""The time that a restarted server needs to be up, unless its disk is damaged."""

SOMEBODY_MAX: Final = 3
"""The most unidentified servers that may be away if voters have groups. With more the oracle abstains."""


class Service(Enum):
    MUST = "must"
    MUST_NOT = "must not"
    UNKNOWN = "unknown"


@frozen
class Segment:
    """The time from one change of the faults to the next, in milliseconds."""

    begin: int
    end: int
    service: Service


@frozen
class Effect:
    """The effects of a fault from `begin` to `end`: those that are possible, and those that are certain."""

    begin: int
    end: int
    takes: frozenset[int] = frozenset()
    """The servers that may be down, or disconnected from all others."""
    somebody: int = 0
    """The number of further servers that may be away, without their ids."""
    groups: tuple[tuple[int, ...], ...] | None = None
    """Two servers are certainly connected only if they share a group; None if the fault divides no servers."""
    anything: bool = False
    """True if the fault may have any effect: the segment cannot be `must`."""
    members: bool = False
    """True if the membership is unknown: the segment cannot be `must not` either."""


def timeline(script: faults.Script) -> list[Segment]:
    effects = [effect for fault in script.faults for effect in _effects(script, fault)]
    changes = [op.at for op in script.ops if isinstance(op, faults.Reconfigure)]
    if changes:
        effects.append(Effect(min(changes), script.length_ms, anything=True, members=True))
    times = {0, script.length_ms}
    times |= {min(at, script.length_ms) for effect in effects for at in (effect.begin, effect.end)}
    ordered = sorted(times)
    return [
        Segment(begin, end, _service(script, [each for each in effects if each.begin <= begin and each.end >= end]))
        for begin, end in pairwise(ordered)
    ]


def _service(script: faults.Script, effects: Sequence[Effect]) -> Service:
    voters = range(1, script.voters + 1)
    if not any(effect.anything for effect in effects):
        taken = {sid for effect in effects for sid in effect.takes}
        left = [sid for sid in voters if sid not in taken]
        if _must(script, left, effects, sum(effect.somebody for effect in effects)):
            return Service.MUST
    if any(effect.members for effect in effects):
        return Service.UNKNOWN
    if not any(_is_quorum(script, [other for other in voters if _hear(sid, other, effects)]) for sid in voters):
        return Service.MUST_NOT
    return Service.UNKNOWN


def _is_quorum(script: faults.Script, sids: Sequence[int]) -> bool:
    weights = {ServerId(sid): weight for sid, weight in enumerate(script.weights, 1)}
    return decide(range(1, script.voters + 1), script.groups, weights, sids)


def _must(script: faults.Script, left: Sequence[int], effects: Sequence[Effect], somebody: int) -> bool:
    """Return True if remaining servers that are certainly connected with each other form a quorum."""
    if not script.groups:
        return _is_quorum(script, next(_together(left, effects), ())[somebody:])
    return somebody <= SOMEBODY_MAX and any(
        all(_is_quorum(script, there) for there in combinations(part, len(part) - somebody))
        for part in _together(left, effects)
        if len(part) > somebody
    )


def _together(sids: Sequence[int], effects: Sequence[Effect]) -> Iterator[tuple[int, ...]]:
    """Yield the largest sets of servers that are all certainly connected with each other."""
    for size in range(len(sids), 0, -1):
        found = False
        for part in combinations(sids, size):
            if all(_hear(one, other, effects) for one, other in combinations(part, 2)):
                found = True
                yield part
        if found:
            return


def _hear(one: int, other: int, effects: Sequence[Effect]) -> bool:
    """Return True if the servers are certainly connected: they share a group of each fault that has groups."""
    return all(
        any(one in group and other in group for group in effect.groups)
        for effect in effects
        if effect.groups is not None
    )


# -- the effects of each fault ---------------------------------------------------------------------------


def _effects(script: faults.Script, fault: faults.Fault) -> list[Effect]:
    length, at = script.length_ms, fault.at
    servers = tuple(range(1, script.servers + 1))
    match fault:
        case faults.Isolate(for_ms=for_ms, server=server):
            if server < 1:
                return [Effect(at, at + for_ms, somebody=1)]
            return [Effect(at, at + for_ms, groups=((server,), tuple(sid for sid in servers if sid != server)))]
        case faults.Partition(for_ms=for_ms, groups=groups):
            if any(sid < 1 for group in groups for sid in group):
                return [Effect(at, at + for_ms, anything=True)]
            return [Effect(at, at + for_ms, groups=(*groups, *((sid,) for sid in servers))), *_bent(fault)]
        case faults.Split(for_ms=for_ms, shape=shape, server=server):
            if server < 1 or server > script.servers or shape != "halves":
                return [Effect(at, at + for_ms, anything=True)]
            turned = (*servers[server - 1 :], *servers[: server - 1])
            half = max(1, len(turned) // 2)
            return [Effect(at, at + for_ms, groups=(turned[:half], turned[half:]))]
        case faults.Crash(down_ms=down_ms, server=server) | faults.Restart(down_ms=down_ms, server=server):
            return [_away(at, at + down_ms + STARTS_MS, server)]
        case faults.Pause(for_ms=for_ms, server=server):
            return [_away(at, at + for_ms, server)]
        case faults.CutLinks(server=server) | faults.DoubleLinks(server=server):
            return [_away(at, at + 1, server)]
        case faults.CrashAll(down_ms=down_ms):
            return [Effect(at, at + down_ms + STARTS_MS, anything=True)]
        case faults.LoseDisk(down_ms=down_ms, server=server) | faults.FlipBit(down_ms=down_ms, server=server):
            back = at + down_ms + STARTS_MS
            return [_away(at, back, server), _away(back, length, server)]
        case (
            faults.OldDisk()
            | faults.LoseFsync()
            | faults.MisdirectRecord()
            | faults.CrashIn()
            | faults.When()
            | faults.FailDisk()
            | faults.FullDisk()
        ):
            return [Effect(at, length, anything=True)]  # the run decides when it takes effect
        case faults.RollingRestart(down_ms=down_ms, wait_ms=wait_ms):
            return [Effect(at, at + script.servers * (down_ms + wait_ms + STARTS_MS), anything=True)]
        case faults.Setting(for_ms=for_ms):
            return [Effect(at, at + for_ms + 2 * STARTS_MS, anything=True)]
        case _:  # bad links, slow disks, wrong clocks
            return [Effect(at, at + getattr(fault, "for_ms", 0), anything=True)]


def _bent(fault: faults.Partition) -> list[Effect]:
    """Return an unknown effect if groups overlap: a bridge decides in no fixed time which side serves."""
    named = [sid for group in fault.groups for sid in group]
    return [Effect(fault.at, fault.at + fault.for_ms, anything=True)] if len(named) > len(set(named)) else []


def _away(begin: int, end: int, server: int) -> Effect:
    return Effect(begin, end, somebody=1) if server < 1 else Effect(begin, end, takes=frozenset({server}))


# -- the check of a run ----------------------------------------------------------------------------------


class Oracle(Checker):
    """Compare a run with its segments: commits as they happen, and times without service at the end."""

    invariant = "decides only with a connected quorum"
    SERVES: Final = "serves while a quorum is connected"

    def __init__(self, ghost: OracleState, segments: Sequence[Segment], now: Callable[[], int]) -> None:
        super().__init__(ghost)
        self._segments = segments
        self._now = now
        self._mute = [segment for segment in segments if segment.service is Service.MUST_NOT]
        self._proposed: dict[Zxid, Segment] = {}

    def _segment(self) -> Segment | None:
        """Return the present `must not` segment, or None."""
        now = self._now()
        return next((each for each in self._mute if each.begin * 1_000 < now < each.end * 1_000), None)

    def proposed(self, server: ServerState, first: Zxid, payloads: Sequence[bytes]) -> None:
        if (segment := self._segment()) is not None:
            for offset in range(len(payloads)):
                self._proposed[Zxid(first + offset)] = segment

    def committed(self, server: ServerState, zxid: Zxid, path: list[Zxid] | None) -> None:
        segment = self._segment()
        for each in path or ():
            proposed = self._proposed.get(each)
            if proposed is not None and proposed is segment:
                self.fail(
                    f"server {server.id} commits {show(each)}, which was proposed after {segment.begin} ms, but until"
                    f" {segment.end} ms no server is connected with a quorum in both directions"
                )

    def unserved(self, quiet: Sequence[tuple[int, int]], bound_ms: int) -> Violation | None:
        """Return a violation if a time without service is too long. `quiet` has begins and ends in milliseconds."""
        for segment in self._segments:
            if segment.service is not Service.MUST:
                continue
            for begin, end in quiet:
                since, until = max(begin, segment.begin), min(end, segment.end)
                if until - since > bound_ms:
                    return Violation(
                        self.SERVES,
                        f"from {since} to {until} ms no server serves, but from {segment.begin} to {segment.end} ms no"
                        f" fault begins or ends and a quorum of intact servers is connected; the bound: {bound_ms} ms",
                    )
        return None
