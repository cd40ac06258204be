"""Names of the situations, and the number of runs of the usual size in which each must have occurred.

A budget is about five times the measured average, and at least fifty runs. A healthy campaign of exactly that many runs
misses one situation about once in a hundred times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from attrs import frozen

PREFIX: Final = "point: "
"""The prefix of a point's name in the counts of an outcome."""


@frozen
class Point:
    name: str
    what: str
    budget: int
    """In runs."""
    store: bool = False
    """True if it needs clients of the store."""


POINTS: Final[tuple[Point, ...]] = (
    # -- leaders -----------------------------------------------------------------------------------------
    Point(
        "quorum acked, leader dies", "a quorum has the transaction on disk, and the leader ends before it commits", 200
    ),
    Point("unacked, leader dies", "the leader ends, and its proposal is not on the disks of a quorum", 100),
    Point(
        "leader behind its commit", "a leader commits a transaction that a quorum has on disk, but not its own disk", 50
    ),
    Point("deposed serves on", "an epoch begins while the leader of an older one still serves", 100),
    Point("deposed is asked", "a deposed leader receives a barrier request, and ends without a reply", 1_000),
    Point("two candidates", "two servers consider themselves elected at the same time", 50),
    Point("candidate fails", "an elected leader gives up before its epoch begins", 200),
    Point("late voter", "a server ends its election because it finds a serving leader", 50),
    Point("epochs skipped", "an epoch begins, and the epoch before it never began", 100),
    Point("epoch without a transaction", "an epoch begins with the same history as the epoch before it", 50),
    # -- histories ---------------------------------------------------------------------------------------
    Point("tail inherited", "an epoch begins with transactions that may or may not be committed", 50),
    Point("tail decided", "a leader commits a proposal of an earlier leader", 50),
    Point("histories diverge", "an epoch begins while another server has transactions that its leader lacks", 200),
    Point("own tail cut", "a former leader truncates its own proposals", 100),
    Point("long cut", "a truncation removes more than one batch", 500),
    Point("sync diff", "a learner is synchronized by DIFF", 50),
    Point("sync trunc", "a learner is synchronized by TRUNC", 100),
    Point("sync snap", "a learner is synchronized by SNAP", 50),
    Point("sync from disk", "the missing batches are no longer in the leader's memory, and come from its log", 50),
    Point("NEWLEADER unanswered", "a learner ends, or leaves, before it has adopted the epoch", 50),
    Point("late acknowledgement", "a server acknowledges a transaction that is already committed", 50),
    # -- disks -------------------------------------------------------------------------------------------
    Point("dies in a snapshot", "a learner ends while it writes a snapshot from its leader", 1_000),
    Point("dies behind a cut", "a server ends after a truncation, before it has adopted the epoch", 1_000),
    Point("dies at adoption", "a server ends while history and epoch are on their way to its disk", 1_000),
    Point("more than was told", "a restart finds writes that were never reported as durable", 200),
    Point("healed by a snapshot", "a server that lost its disk receives the leader's state", 50),
    Point("disk of yesterday", "a server starts with an old state of its disk, and cannot notice it", 100),
    Point("readmitted", "a server that lost its promises counts again", 50),
    Point("nobody is there", "all servers are down at the same time", 200),
    # -- memberships -------------------------------------------------------------------------------------
    Point(
        "observer promoted under load",
        "a change makes an observer a voter while transactions are outstanding",
        1_000,
    ),
    Point("leader leaves", "a leader proposes a membership in which it has no vote", 100),
    Point("change inherited", "an epoch begins with a membership change that may or may not be committed", 1_000),
    # -- clients -----------------------------------------------------------------------------------------
    Point("expiry races a create", "a session expires while the outcome of one of its creates is unknown", 500, True),
    Point("session moves", "a session continues at another server", 50, True),
    Point("watch fires on return", "a watch that is set again on reconnection fires at once", 300, True),
    Point("multi refused in the middle", "a multi fails at an operation that is not its first", 50, True),
    Point("wrong version", "a write fails because another client was faster", 50, True),
    Point("unknown outcome", "a write without a reply was carried out", 50, True),
    Point("unknown and undone", "a write without a reply was not carried out", 50, True),
)

BY_NAME: Final = {point.name: point for point in POINTS}
assert len(BY_NAME) == len(POINTS)


def missed(counts: Mapping[str, int], points: Iterable[Point]) -> list[Point]:
    """Return the points that a campaign never reached."""
    return [point for point in points if not counts.get(PREFIX + point.name)]
