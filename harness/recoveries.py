"""The recovery after each fault: the time until a quorum served, a write was acknowledged, and sessions were back.

Campaigns add these up by kind of fault; no invariant is about them. They also count which kinds of faults overlapped.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations_with_replacement
from typing import Final

from attrs import frozen

from harness.checkers.judge import Checker
from harness.checkers.oracle_state import OracleState, ServerState
from harness.history import History, Invoke, Response, SessionEvent
from harness.outcome import Recovery
from zab.core.zxid import Zxid

WRITES: Final = ("create", "set", "delete", "multi")


def of_brokers(hits: Sequence[tuple[str, int, int]], written: Sequence[int], healed: int) -> tuple[Recovery, ...]:
    """Return the recoveries after faults of brokers. `written`: the times of acknowledgements of producers with
    acks=all; `healed`: the time at which all faults end."""
    made = sorted((Hit(kind, begin, min(end, healed)) for kind, begin, end in hits), key=lambda hit: hit.end)
    return recoveries(made, (), written, None)


@frozen
class Hit:
    """The kind, begin and end of a fault, in microseconds."""

    kind: str
    begin: int
    end: int


class Acknowledged(Checker):
    """Record the times at which writes of a list were acknowledged. It never fails."""

    invariant = "acknowledged"

    def __init__(self, ghost: OracleState, now: Callable[[], int]) -> None:
        super().__init__(ghost)
        self._now = now
        self.times: list[int] = []

    def acknowledged(self, server: ServerState, zxid: Zxid) -> None:
        self.times.append(self._now())


def recoveries(
    hits: Sequence[Hit], quiet: Sequence[tuple[int, int]], written: Sequence[int], history: History | None
) -> tuple[Recovery, ...]:
    """Return the recovery after each fault.

    `quiet`: the times without service, in milliseconds; `written`: the times of acknowledged writes, in microseconds. A
    history of clients replaces `written`.
    """
    if history is not None:
        written = _written(history)
    away = _away(history)
    found = []
    for hit in hits:
        after = bisect_right(written, hit.end)
        found.append(
            Recovery(
                hit.kind,
                hit.end // 1_000,
                _until([(begin * 1_000, end * 1_000) for begin, end in quiet], hit),
                (written[after] - hit.end) // 1_000 if after < len(written) else None,
                _until(away, hit),
            )
        )
    return tuple(found)


def _until(gaps: Sequence[tuple[int, int]], hit: Hit) -> int | None:
    """Return the time from the end of the fault to the end of the last gap that overlaps it, or None."""
    ends = [end for begin, end in gaps if begin <= hit.end and end >= hit.begin]
    return max(0, max(ends) - hit.end) // 1_000 if ends else None


def _written(history: History) -> list[int]:
    calls = {event.call for event in history.events if isinstance(event, Invoke) and event.request.op in WRITES}
    return [
        event.at
        for event in history.events
        if isinstance(event, Response) and event.call in calls and not event.reply.error
    ]


def _away(history: History | None) -> list[tuple[int, int]]:
    """Return the times for which a session was disconnected. Each ends with a new connection or the end of the session.

    A client that reconnects sends its watches before anything else, so the watches are back with the session.
    """
    lost: dict[int, int] = {}
    gaps = []
    for event in () if history is None else history.events:
        if isinstance(event, SessionEvent):
            if event.state == "disconnected":
                lost[event.client] = event.at
            elif event.client in lost:
                gaps.append((lost.pop(event.client), event.at))
    return gaps


Pair = tuple[str, str]
"""Two kinds of faults in alphabetical order."""


def overlaps(hits: Iterable[Hit]) -> frozenset[Pair]:
    """Return the pairs of kinds of faults that overlapped: one struck while the other lasted."""
    found: set[Pair] = set()
    lasting: list[Hit] = []
    for hit in sorted(hits, key=lambda hit: hit.begin):
        lasting = [other for other in lasting if other.end >= hit.begin]
        found.update((min(hit.kind, other.kind), max(hit.kind, other.kind)) for other in lasting)
        lasting.append(hit)
    return frozenset(found)


def overlap_summary(found: frozenset[Pair]) -> str:
    """Describe how many of the possible pairs overlapped, and some that did not. Empty if fewer than two kinds did."""
    kinds = sorted({kind for pair in found for kind in pair})
    if len(kinds) < 2:
        return ""
    possible = list(combinations_with_replacement(kinds, 2))
    missing = [f"{one} with {other}" for one, other in possible if (one, other) not in found]
    some = f"; never {', '.join(missing[:3])}{', ...' if len(missing) > 3 else ''}" if missing else ""
    return f"{len(found):,} of {len(possible):,} pairs of faults overlapped{some}"
