"""Where consumers stand, as it was told of them: who says nothing of having moved goes on where it ended."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from attrs import define, evolve, field

from harness.checkers.records.history import NOWHERE, Assigned, Ended, Event, Place, Polled, Sought, Span


class Stood(NamedTuple):
    """A place, and what says that somebody was there."""

    offset: int
    event: Assigned | Sought | Polled

    def evidence(self, partition: str) -> Assigned | Sought | Polled:
        """Cut down to what says it."""
        match self.event:
            case Polled():
                return evolve(self.event, records=(), spans=(Span(partition, self.offset, self.offset),))
            case Assigned():
                return evolve(self.event, begins=(Place(partition, self.offset),), goes_on=())
            case Sought():
                return self.event


_Places: TypeAlias = dict[str, Stood]


@define(eq=False)
class Standing:
    """Of all clients, in all partitions."""

    _places: dict[int, _Places] = field(factory=dict)

    def at(self, client: int, partition: str) -> Stood | None:
        return self._places.get(client, {}).get(partition)

    def take(self, event: Event) -> None:
        """What is no poll. Of a poll, each span is to be taken when it was judged."""
        match event:
            case Assigned():
                before = self._places.get(event.client, {})
                self._places[event.client] = {name: before[name] for name in event.goes_on if name in before}
                for partition, offset in event.begins:
                    self._put(event.client, partition, offset, event)
            case Sought():
                self._put(event.client, event.partition, event.offset, event)
            case Ended():
                self._places.pop(event.client, None)
            case _:
                pass

    def polled(self, poll: Polled, span: Span) -> None:
        self._put(poll.client, span.partition, span.end, poll)

    def _put(self, client: int, partition: str, offset: int, event: Assigned | Sought | Polled) -> None:
        places = self._places.setdefault(client, {})
        if offset == NOWHERE:
            places.pop(partition, None)
        else:
            places[partition] = Stood(offset, event)
