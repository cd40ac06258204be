"""Their names, and after how many runs of the usual size each must have occurred.

A budget is some five times what it took on average when it was last measured, and fifty runs at least: a healthy
campaign misses one of them about once in a hundred times that the number of its runs is just the budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from attrs import frozen

PREFIX: Final = "point: "
"""In the counts of an outcome, a point is under its name with this in front."""


@frozen
class Point:
    name: str
    what: str
    budget: int
    """In runs."""
    store: bool = False
    """Only where there are clients of the store."""


POINTS: Final[tuple[Point, ...]] = (
    # -- leaders -----------------------------------------------------------------------------------------
    Point("quorum acked, leader dies", "a quorum has it on disk, and the leader is gone before it could commit", 200),
    Point("unacked, leader dies", "the leader is gone, and what it proposed is not on the disks of a quorum", 100),
    Point("leader behind its commit", "a leader commits what is on a quorum's disks, its own not among them", 50),
    Point("deposed serves on", "an epoch begins while the leader of an older one still serves", 100),
    Point("deposed is asked", "a deposed leader is asked for a barrier, and ends without having answered", 1_000),
    Point("two candidates", "two servers believe that they were elected, at the same time", 50),
    Point("candidate fails", "a leader-elect gives up before its epoch began", 200),
    Point("late voter", "a server ends its election by finding a leader that serves already", 50),
    Point("epochs skipped", "an epoch begins, and the one before it never did", 100),
    Point("epoch without a transaction", "an epoch begins with what the one before it began with", 50),
    # -- histories ---------------------------------------------------------------------------------------
    Point("tail inherited", "an epoch begins with transactions of which nobody knows whether they were committed", 50),
    Point("tail decided", "a leader commits what an earlier leader proposed", 50),
    Point("histories diverge", "an epoch begins while another server holds what its leader does not", 200),
    Point("own tail cut", "a former leader cuts what it has proposed itself", 100),
    Point("long cut", "a truncation takes away more than one batch", 500),
    Point("sync diff", "a learner is sent what it lacks", 50),
    Point("sync trunc", "a learner is told to cut its log", 100),
    Point("sync snap", "a learner is sent a snapshot", 50),
    Point("sync from disk", "what a learner lacks is no longer in the leader's memory, and is read from its log", 50),
    Point("NEWLEADER unanswered", "a learner ends, or is taken away, before it has adopted the epoch", 50),
    Point("late acknowledgement", "a server acknowledges what is committed already", 50),
    # -- disks -------------------------------------------------------------------------------------------
    Point("dies in a snapshot", "a learner dies while a snapshot from its leader is being written", 1_000),
    Point("dies behind a cut", "a server dies when its log is cut, and the epoch not yet adopted", 1_000),
    Point("dies at adoption", "a server dies with history and epoch on their way to the disk", 1_000),
    Point("more than was told", "a restart finds what nobody was told to be durable", 200),
    Point("healed by a snapshot", "a server that lost its disk is given the leader's state", 50),
    Point("disk of yesterday", "a server starts with what its disk was earlier, and cannot know", 100),
    Point("readmitted", "a server whose promises were lost is counted again", 50),
    Point("nobody is there", "every server is down at the same time", 200),
    # -- memberships -------------------------------------------------------------------------------------
    Point(
        "observer promoted under load",
        "an observer is to vote while other transactions are undecided",
        1_000,
    ),
    Point("leader leaves", "a leader proposes a membership in which it does not vote", 100),
    Point("change inherited", "an epoch begins with a change of the membership that may be committed", 1_000),
    # -- clients -----------------------------------------------------------------------------------------
    Point("expiry races a create", "a session expires while nobody knows what became of a create of its", 500, True),
    Point("session moves", "a session goes on at another server", 50, True),
    Point("watch fires on return", "a watch is set again on reconnection, and fires at once", 300, True),
    Point("multi refused in the middle", "a multi is refused for a part that is not its first", 50, True),
    Point("wrong version", "a write is refused because somebody else was faster", 50, True),
    Point("unknown outcome", "a write is neither answered nor refused, and has happened", 50, True),
    Point("unknown and undone", "a write is neither answered nor refused, and has not happened", 50, True),
)

BY_NAME: Final = {point.name: point for point in POINTS}
assert len(BY_NAME) == len(POINTS)


def missed(counts: Mapping[str, int], points: Iterable[Point]) -> list[Point]:
    """Those that a campaign never came to."""
    return [point for point in points if not counts.get(PREFIX + point.name)]
