"""What of a history still counts: where something was undone, what was before that proves nothing any more.

What was answered is as good as unanswered then, what was read as good as unread, and nobody stands anywhere. Of
everything that was seen later, and of other partitions, nothing is forgiven.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, evolve

from harness.checkers.records.history import (
    NOWHERE,
    POSITIONS,
    Acked,
    Assigned,
    Committed,
    Event,
    History,
    Polled,
    Sent,
    Sought,
    Undone,
    Unknown,
)

UNDONE = "it was undone"


def standing(history: History) -> History:
    """The same events at the same places, some of which say less."""
    undone = {event.partition: place for place, event in enumerate(history.events) if isinstance(event, Undone)}
    if not undone:
        return history
    sent_to = {event.call: event.partition for event in history.events if isinstance(event, Sent)}
    positions = max((place for name, place in undone.items() if name.startswith(POSITIONS)), default=NOWHERE)
    cut = _Cut(undone, sent_to, positions)
    return evolve(history, events=tuple(cut.left(event, place) for place, event in enumerate(history.events)))


@define(eq=False)
class _Cut:
    undone: Mapping[str, int]
    """By partition, the place in the history."""
    sent_to: Mapping[int, str]
    positions: int

    def left(self, event: Event, place: int) -> Event:
        match event:
            case Sent() if self._is(event.partition, place):
                return evolve(event, producer=0)  # who sends it again may be the only one who knows of the first time
            case Acked() if self._is(self.sent_to.get(event.call, ""), place):
                return Unknown(event.at, event.client, event.call, UNDONE)
            case Committed() if place < self.positions:
                return Unknown(event.at, event.client, event.call, UNDONE)
            case Sought() if self._is(event.partition, place):
                return evolve(event, offset=NOWHERE)
            case Polled():
                return evolve(
                    event,
                    records=tuple(each for each in event.records if not self._is(each.partition, place)),
                    spans=tuple(each for each in event.spans if not self._is(each.partition, place)),
                )
            case Assigned():
                return evolve(
                    event,
                    begins=tuple(each for each in event.begins if not self._is(each.partition, place)),
                    goes_on=tuple(each for each in event.goes_on if not self._is(each, place)),
                )
            case _:
                return event

    def _is(self, partition: str, place: int) -> bool:
        return place < self.undone.get(partition, NOWHERE)
