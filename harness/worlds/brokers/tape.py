"""The events of a run, in the order in which its clients saw them."""

from __future__ import annotations

from collections.abc import Callable

from harness.checkers.records.history import ALL, Acked, Event, History, Sent


class Tape:
    def __init__(self, now_us: Callable[[], int]) -> None:
        self.events: list[Event] = []
        self.calls = 0
        self.producers = 0
        self.complete = False
        self._settled: int | None = None
        self.now_us = now_us

    def add(self, event: Event) -> None:
        self.events.append(event)

    def add_late(self, event: Event) -> None:
        """What nobody saw when it was."""
        self.events.append(event)

    def settled(self) -> None:
        """From now on nothing is lost any more."""
        if self._settled is None:
            self._settled = self.now_us()

    def settled_us(self) -> int:
        """When; or that it never came to that."""
        if self._settled is not None:
            return self._settled
        return max((event.at for event in self.events), default=0)

    def call(self) -> int:
        """Another number for each."""
        self.calls += 1
        return self.calls

    def producer(self) -> int:
        self.producers += 1
        return self.producers

    @property
    def acknowledged(self) -> int:
        return sum(isinstance(event, Acked) for event in self.events)

    def acknowledged_at(self) -> list[int]:
        """When somebody was told that all in sync have it."""
        all_in_sync = {event.call for event in self.events if isinstance(event, Sent) and event.acks == ALL}
        return [event.at for event in self.events if isinstance(event, Acked) and event.call in all_in_sync]

    def history(self) -> History:
        """By their times: who is a process of his own tells late what he has seen, though in his order."""
        return History(tuple(sorted(self.events, key=lambda event: event.at)), self.complete)
