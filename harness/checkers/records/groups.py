"""Offsets of groups: a committed offset is returned until another one is committed.

A commit takes effect at an instant between its call and its reply; one without a reply takes effect at any later
instant, or never. A fetch returns an offset that was in effect at an instant between its call and its reply.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from attrs import frozen

from harness.checkers.broken import Broken
from harness.checkers.records import history
from harness.checkers.records.case import Case, GroupCall, proof

REMEMBERED: Final = "no committed offset is lost"
INVENTED: Final = "a fetched group offset was committed"


@frozen
class Commit:
    asked: GroupCall[history.Committing, history.Committed]
    offset: int

    @property
    def call(self) -> history.Committing:
        return self.asked.call

    @property
    def done(self) -> history.Committed | None:
        return self.asked.answer if isinstance(self.asked.answer, history.Committed) else None

    def counts_before(self, call: history.Event, place: int) -> bool:
        """Return whether the commit was answered before that call."""
        return self.done is not None and _before(self.done, self.asked.answered, call, place)


def _before(one: history.Event, its_place: int, other: history.Event, others_place: int) -> bool:
    """Return whether `one` was certainly earlier: by the order of events of one client, by the times of two clients."""
    return its_place < others_place and (one.client == other.client or one.at < other.at)


def positions(case: Case) -> Iterator[Broken]:
    commits: dict[tuple[str, str], list[Commit]] = {}
    for asked in case.commits:
        if not isinstance(asked.answer, history.Failed):
            for partition, offset in asked.call.places:
                commits.setdefault((asked.call.group, partition), []).append(Commit(asked, offset))
    for fetch in case.fetches:
        if isinstance(fetch.answer, history.Found):
            for place in fetch.answer.places:
                yield from _found(fetch, fetch.answer, place, commits.get((fetch.call.group, place.partition), []))


def _found(
    asked: GroupCall[history.Looking, history.Found], found: history.Found, place: history.Place, known: list[Commit]
) -> Iterator[Broken]:
    call = asked.call
    over = [each for each in known if each.counts_before(call, asked.place)]
    latest = max(over, key=lambda each: (each.call.at, each.asked.place), default=None)
    fetch = f"client {call.client} fetched the offset of group {call.group} in {place.partition} at {call.at}"
    narrow = history.Looking(call.at, call.client, call.call, call.group, (place.partition,))
    seen = history.Found(found.at, found.client, found.call, (place,))
    if place.offset == history.NOWHERE:
        if latest is not None:
            what = f"{fetch} and received none, but {latest.offset} had been committed at {latest.call.at}"
            yield Broken(REMEMBERED, what, proof(*_evidence(latest, place.partition), narrow, seen))
        return
    same = [
        each
        for each in known
        if each.offset == place.offset and not _before(found, asked.answered, each.call, each.asked.place)
    ]
    if not same:
        yield Broken(INVENTED, f"{fetch} and received {place.offset}, which was never committed", (narrow, seen))
    elif latest is not None and all(each.counts_before(latest.call, latest.asked.place) for each in same):
        newest = max(same, key=lambda each: each.call.at)
        what = (
            f"{fetch} and received {place.offset}, committed at {newest.call.at}, but {latest.offset} had been"
            f" committed later, at {latest.call.at}"
        )
        evidence = (event for each in (*same, latest) for event in _evidence(each, place.partition))
        yield Broken(REMEMBERED, what, proof(*evidence, narrow, seen))


def _evidence(commit: Commit, partition: str) -> tuple[history.Event, ...]:
    call = commit.call
    assert commit.done is not None
    narrow = history.Committing(call.at, call.client, call.call, call.group, (history.Place(partition, commit.offset),))
    return narrow, commit.done
