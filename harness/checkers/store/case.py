"""A history, prepared for those who judge it: its calls with what became of them, and the tree at every zxid."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from attrs import frozen

from harness.checkers.store.broken import Broken
from harness.checkers.store.calls import Call, Calls
from harness.checkers.store.replay import Replay
from harness.history import Change, Event, History


@frozen
class Case:
    history: History
    replay: Replay
    calls: Calls

    @classmethod
    def of(cls, history: History) -> Case:
        replay = Replay(history.changes)
        return cls(history, replay, Calls(history, replay))

    def sessions(self) -> dict[int, list[tuple[int, Event]]]:
        """The events of each session, with their places in the history."""
        found: dict[int, list[tuple[int, Event]]] = {}
        for place, event in enumerate(self.history.events):
            found.setdefault(event.session, []).append((place, event))
        return found

    def changes_at(self, zxid: int) -> tuple[Change, ...]:
        group = self.replay.groups.get(zxid)
        return () if group is None else group.changes


Promise: TypeAlias = Callable[[Case], Iterator[Broken]]


def broken(promise: str, call: Call, what: str, *also: Event | Change, zxid: int = 0) -> Broken:
    """About one call: what was wrong, for whom."""
    told = call.told
    evidence: tuple[Event | Change, ...] = (call.asked, *(() if told is None else (told,)), *also)
    at = call.asked.at if told is None else told.at
    return Broken(
        promise, f"{call.who}, {call}: {what}", at, call.asked.session, call.asked.call, zxid or call.zxid, evidence
    )
