"""Random histories: well-formed, short, and mostly illegal.

A history may be incomplete or wrong in any way. The checkers and the verifier must agree on it.
"""

from __future__ import annotations

from random import Random
from typing import Final

from attrs import define, field

from harness.checkers.records.history import (
    ALL,
    NOBODY,
    NOWHERE,
    Acked,
    Assigned,
    Ended,
    Event,
    Failed,
    History,
    Place,
    Polled,
    Record,
    Sent,
    Sought,
    Span,
    Trimmed,
    Undone,
    Unknown,
)

PARTITIONS: Final = ("t-0", "t-1")
EVENTS_MAX: Final = 10
OFFSETS: Final = 4
"""The number of offsets, which is small so that events collide."""


def random_history(seed: int) -> History:
    generator = _Generator(Random(seed))
    steps = (
        *[generator.send] * 3, *[generator.answer] * 3, *[generator.poll] * 5,
        generator.seek, generator.assign, generator.trim, generator.end, generator.undo,
    )  # fmt: skip
    for _ in range(generator.chance.randint(2, EVENTS_MAX)):
        generator.now += 10 * generator.chance.randint(0, 1)
        generator.chance.choice(steps)()
    return History(tuple(generator.events), generator.chance.random() < 0.4)


@define(eq=False)
class _Generator:
    chance: Random
    now: int = 0
    events: list[Event] = field(factory=list)
    sent: list[Sent] = field(factory=list)
    open: list[Sent] = field(factory=list)

    def client(self) -> int:
        return self.chance.randint(1, 2)

    def where(self) -> str:
        """Return a partition, mostly the first one."""
        return PARTITIONS[self.chance.random() < 0.25]

    def place(self) -> int:
        return self.chance.randint(NOWHERE, OFFSETS - 2)

    def send(self) -> None:
        client, call = self.client(), len(self.sent)
        acks, producer = self.chance.choice((ALL, ALL, ALL, 1)), self.chance.choice((0, 0, client))
        self.sent.append(Sent(self.now, client, call, self.where(), chr(ord("a") + call), acks, producer))
        self.open.append(self.sent[-1])
        self.events.append(self.sent[-1])

    def answer(self) -> None:
        if not self.open:
            return
        sent = self.open.pop(self.chance.randrange(len(self.open)))
        answers: tuple[Event, ...] = (
            *[Acked(self.now, sent.client, sent.call, self.place())] * 5,
            Failed(self.now, sent.client, sent.call, "REFUSED"),
            Unknown(self.now, sent.client, sent.call),
        )
        self.events.append(self.chance.choice(answers))

    def poll(self) -> None:
        records = []
        for offset in range(OFFSETS):
            if self.sent and self.chance.random() < 0.4:
                value = self.chance.choice(self.sent).value if self.chance.random() < 0.95 else "nobody's"
                records.append(Record(self.where(), offset, value))
        if self.chance.random() < 0.05:
            self.chance.shuffle(records)
        spans = []
        for partition in PARTITIONS:
            if self.chance.random() < 0.4:
                start = self.chance.randrange(OFFSETS)
                spans.append(Span(partition, start, start + self.chance.randrange(OFFSETS)))
        self.events.append(Polled(self.now, self.client(), self.now, tuple(records), tuple(spans)))

    def seek(self) -> None:
        self.events.append(Sought(self.now, self.client(), self.where(), self.place()))

    def assign(self) -> None:
        begins = tuple(Place(partition, self.place()) for partition in PARTITIONS if self.chance.random() < 0.5)
        goes_on = tuple(partition for partition in PARTITIONS if self.chance.random() < 0.3)
        self.events.append(Assigned(self.now, self.client(), begins, goes_on))

    def trim(self) -> None:
        self.events.append(Trimmed(self.now, 9, self.where(), self.chance.randint(0, OFFSETS)))

    def end(self) -> None:
        self.events.append(Ended(self.now, self.client()))

    def undo(self) -> None:
        self.events.append(Undone(self.now, NOBODY, self.where()))
