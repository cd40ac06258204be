"""Records the events of broker clients, in the order in which the clients saw them."""

from __future__ import annotations

from collections.abc import Callable

from harness.checkers.records.history import ALL, Acked, Event, History, Sent


class Recorder:
    def __init__(self, now_us: Callable[[], int], keeps: Callable[[Event], object] = lambda event: True) -> None:
        """`keeps` is called with each event, and decides whether it belongs to the history."""
        self.events: list[Event] = []
        self._keeps = keeps
        self.calls = 0
        self.producers = 0
        self.complete = False
        """True after all partitions were read back at the end."""
        self._settled: int | None = None
        self.now_us = now_us

    def add(self, event: Event) -> None:
        if self._keeps(event):
            self.events.append(event)

    def add_late(self, event: Event) -> None:
        """Add an event that no client saw when it happened, also after the run."""
        self.events.append(event)

    def settled(self) -> None:
        """Note the time from which on no record may be lost."""
        if self._settled is None:
            self._settled = self.now_us()

    def settled_us(self) -> int:
        """Return the time of `settled`, or of the last event if the run did not reach it."""
        if self._settled is not None:
            return self._settled
        return max((event.at for event in self.events), default=0)

    def call(self) -> int:
        """Return the next number of a call."""
        self.calls += 1
        return self.calls

    def producer(self) -> int:
        """Return the next number of a producer identity."""
        self.producers += 1
        return self.producers

    @property
    def acknowledged(self) -> int:
        return sum(isinstance(event, Acked) for event in self.events)

    def acknowledged_at(self) -> list[int]:
        """Return the times of the acknowledgements of writes with acks=all."""
        all_in_sync = {event.call for event in self.events if isinstance(event, Sent) and event.acks == ALL}
        return [event.at for event in self.events if isinstance(event, Acked) and event.call in all_in_sync]

    def history(self) -> History:
        """Return the events sorted by time. A client in a process of its own reports late, but in its own order."""
        return History(tuple(sorted(self.events, key=lambda event: event.at)), self.complete)
