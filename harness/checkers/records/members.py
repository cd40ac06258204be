"""Members of groups: they share the partitions, and skip no record between them.

Only clients whose assignment names a group are checked. A member may continue to read a lost partition for a while, but
its commits are refused then. So there are three invariants: no two members own a partition in the same generation; some
member has read each record below a committed offset; and a new owner does not begin below the committed offset.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from attrs import define, evolve, field, frozen

from harness.checkers.broken import Broken
from harness.checkers.records import history
from harness.checkers.records.case import Case, GroupCall, proof
from harness.checkers.records.groups import Commit

OWNED: Final = "one owner per partition and generation"
PASSED: Final = "a group skips no record"
ONWARDS: Final = "a group's position does not decrease"

Part = tuple[str, str]
"""A partition of a group, as (group, partition)."""
_UNASSIGNED: Final = history.Assigned(0, 0)


def owned(case: Case) -> Iterator[Broken]:
    owners: dict[tuple[str, int, str], history.Assigned] = {}
    for event in case.history.events:
        if isinstance(event, history.Assigned) and event.generation != history.NO_GENERATION:
            for partition in _partitions(event):
                first = owners.setdefault((event.group, event.generation, partition), event)
                if first.client != event.client:
                    what = (
                        f"generation {event.generation} of group {event.group} assigns {partition} to client "
                        f"{first.client} and to client {event.client}"
                    )
                    yield Broken(OWNED, what, proof(_only(first, partition), _only(event, partition)))


def _partitions(event: history.Assigned) -> tuple[str, ...]:
    return *(place.partition for place in event.begins), *event.goes_on


def _only(event: history.Assigned, partition: str) -> history.Assigned:
    return evolve(
        event,
        begins=tuple(place for place in event.begins if place.partition == partition),
        goes_on=tuple(name for name in event.goes_on if name == partition),
    )


# -- events of members ---------------------------------------------------------------------------------


@frozen
class OwnedCommit(Commit):
    """A commit by a member that owns the partition at that time."""

    given: history.Assigned

    def evidence(self, partition: str) -> tuple[history.Event, ...]:
        return _only(self.given, partition), evolve(self.call, places=(history.Place(partition, self.offset),))


@define(eq=False)
class MemberEvents:
    """The events of a group's members for one partition."""

    begins: list[tuple[int, history.Assigned]] = field(factory=list)
    """The offsets at which members began."""
    commits: list[OwnedCommit] = field(factory=list)
    read: dict[int, int] = field(factory=dict)
    """The index of the first poll that returned each offset to a member, by offset."""
    moved: bool = False
    """True if a member has moved on purpose."""


def _shared(case: Case) -> dict[Part, MemberEvents]:
    calls = {asked.place: asked for asked in case.commits}
    given: dict[int, history.Assigned] = {}
    found: dict[Part, MemberEvents] = {}

    def part(its: history.Assigned, partition: str) -> MemberEvents:
        return found.setdefault((its.group, partition), MemberEvents())

    for place, event in enumerate(case.history.events):
        its = given.get(event.client, _UNASSIGNED)
        match event:
            case history.Assigned():
                given[event.client] = event
                for partition, offset in event.begins if event.group else ():
                    if offset != history.NOWHERE:
                        part(event, partition).begins.append((offset, event))
            case history.Ended():
                given.pop(event.client, None)
            case history.Sought() if its.group:
                part(its, event.partition).moved = True
            case history.Polled() if its.group:
                for record in event.records:
                    part(its, record.partition).read.setdefault(record.offset, place)
            case history.Committing() if its.group:
                asked, has = calls[place], _partitions(its)
                for partition, offset in event.places if event.group == its.group else ():
                    if partition in has and not isinstance(asked.answer, history.Failed):
                        part(its, partition).commits.append(OwnedCommit(asked, offset, its))
            case _:
                pass
    return {key: events for key, events in found.items() if not events.moved}


# -- skipped records -----------------------------------------------------------------------------------


def passed(case: Case) -> Iterator[Broken]:
    for (group, partition), shared in _shared(case).items():
        yield from _passed(case, group, partition, shared)


def _passed(case: Case, group: str, partition: str, shared: MemberEvents) -> Iterator[Broken]:
    """Check each record once, before the first commit of a larger offset."""
    earliest: list[OwnedCommit] = []
    for commit in shared.commits:
        if not earliest or commit.offset > earliest[-1].offset:
            earliest.append(commit)
    below = 0
    known = sorted(case.reads.get(partition, {}).items())
    for commit in earliest:
        for offset, seen in known:
            if not below <= offset < commit.offset or shared.read.get(offset, commit.asked.place) < commit.asked.place:
                continue
            if offset < case.deleted_below(partition, commit.asked.place):
                continue
            own = next((place.offset for place in commit.given.begins if place.partition == partition), history.NOWHERE)
            earlier = [event for begin, event in shared.begins if begin <= offset and event.at <= commit.call.at]
            began = commit.given if history.NOWHERE < own <= offset else next(iter(earlier), None)
            if began is not None:
                what = (
                    f"client {commit.call.client} commits {commit.offset} in {partition} for group {group} at "
                    f"{commit.call.at}, but no member has read {seen.record.value!r} at {offset}"
                )
                begins = _only(began, partition), *commit.evidence(partition)
                yield Broken(PASSED, what, proof(*seen.evidence(case), *begins))
        below = commit.offset


def onwards(case: Case) -> Iterator[Broken]:
    for (group, partition), shared in _shared(case).items():
        yield from _onwards(case, group, partition, shared.commits)


def _onwards(case: Case, group: str, partition: str, commits: list[OwnedCommit]) -> Iterator[Broken]:
    done = [each for each in commits if each.done is not None]
    highest: OwnedCommit | None = None
    for commit in done:
        before = highest
        if before is not None and commit.offset < before.offset and before.asked.answered < commit.asked.place:
            if not any(_explains(other, group, partition, before, commit) for other in case.commits):
                what = (
                    f"client {commit.call.client} commits {commit.offset} in {partition} for group {group} at "
                    f"{commit.call.at}, but client {before.call.client} had committed {before.offset} at "
                    f"{before.call.at}"
                )
                answers = [each.asked.answer for each in (before, commit) if each.asked.answer is not None]
                same = before.call.client == commit.call.client  # one assignment is enough for both commits
                again = commit.evidence(partition)[same:]
                yield Broken(ONWARDS, what, proof(*before.evidence(partition), *again, *answers))
            highest = None  # compare later commits with this lower one
        if highest is None or commit.offset >= highest.offset:
            highest = commit


def _explains(
    other: GroupCall[history.Committing, history.Committed], group: str, partition: str, before: Commit, after: Commit
) -> bool:
    """Return whether this commit of a lower offset may have taken effect in between, so that the decrease is legal."""
    call = other.call
    if call.group != group or other in (before.asked, after.asked):
        return False
    if isinstance(other.answer, history.Failed) or other.place > after.asked.place:
        return False
    if isinstance(other.answer, history.Committed) and other.answered < before.asked.place:
        return False
    return any(name == partition and offset <= after.offset for name, offset in call.places)
