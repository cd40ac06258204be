"""Builder for handwritten histories of brokers' clients.

    t = HistoryBuilder()
    t.write(1, "a", 0)      # client 1 sends "a", which is acknowledged at offset 0
    t.read(2, 0, "a", "b")  # client 2 polls from 0, and gets these values

There is one partition unless another is named. Time advances by ten with each event. The builder checks nothing, so
histories may be illegal.
"""

from __future__ import annotations

from attrs import define, field

from harness.checkers.records.history import (
    ALL,
    NOBODY,
    NOWHERE,
    Acked,
    Assigned,
    Committed,
    Committing,
    Ended,
    Event,
    Failed,
    Found,
    History,
    Looking,
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

HERE = "t-0"


@define
class HistoryBuilder:
    complete: bool = False
    now: int = 0
    step: int = 10
    """The time between two events. 0: all at the same instant."""
    calls: int = 0
    events: list[Event] = field(factory=list)
    clients: dict[int, int] = field(factory=dict)
    """The client of each call."""

    def history(self) -> History:
        return History(tuple(self.events), self.complete)

    def later(self) -> int:
        self.now += self.step
        return self.now

    # -- producers ---------------------------------------------------------------------------------

    def send(self, client: int, value: str, *, where: str = HERE, acks: int = ALL, producer: int = 0) -> int:
        self.calls += 1
        self.clients[self.calls] = client
        self.events.append(Sent(self.later(), client, self.calls, where, value, acks, producer))
        return self.calls

    def ack(self, call: int, offset: int = NOWHERE) -> None:
        self.events.append(Acked(self.later(), self.clients[call], call, offset))

    def fail(self, call: int) -> None:
        self.events.append(Failed(self.later(), self.clients[call], call, "RECORD_LIST_TOO_LARGE"))

    def lose(self, call: int) -> None:
        self.events.append(Unknown(self.later(), self.clients[call], call))

    def write(
        self, client: int, value: str, offset: int, *, where: str = HERE, acks: int = ALL, producer: int = 0
    ) -> None:
        self.ack(self.send(client, value, where=where, acks=acks, producer=producer), offset)

    # -- consumers ---------------------------------------------------------------------------------

    def read(self, client: int, start: int, *values: str, end: int | None = None, where: str = HERE) -> None:
        """Poll these values at successive offsets."""
        records = tuple(Record(where, start + place, value) for place, value in enumerate(values))
        end = start + len(values) if end is None else end
        asked = self.later()
        self.events.append(Polled(self.later(), client, asked, records, (Span(where, start, end),)))

    def poll(self, client: int, *found: tuple[int, str], span: tuple[int, int] | None = None) -> None:
        """Poll these records, without a span by default."""
        asked = self.later()
        records = tuple(Record(HERE, offset, value) for offset, value in found)
        spans = () if span is None else (Span(HERE, *span),)
        self.events.append(Polled(self.later(), client, asked, records, spans))

    def assign(self, client: int, *places: tuple[str, int], goes_on: tuple[str, ...] = ()) -> None:
        self.events.append(Assigned(self.later(), client, tuple(Place(*each) for each in places), goes_on))

    def share(self, client: int, generation: int, *places: tuple[str, int], goes_on: tuple[str, ...] = ()) -> None:
        """Assign these partitions by the group."""
        given = tuple(Place(*each) for each in places)
        self.events.append(Assigned(self.later(), client, given, goes_on, "g", generation))

    def seek(self, client: int, offset: int = NOWHERE, where: str = HERE) -> None:
        self.events.append(Sought(self.later(), client, where, offset))

    def end(self, client: int) -> None:
        self.events.append(Ended(self.later(), client))

    # -- allowed losses ---------------------------------------------------------------------------

    def trim(self, upto: int, where: str = HERE) -> None:
        self.events.append(Trimmed(self.later(), 9, where, upto))

    def undo(self, where: str = HERE) -> None:
        self.events.append(Undone(self.later(), NOBODY, where))

    # -- groups ------------------------------------------------------------------------------------

    def commits(self, client: int, offset: int, group: str = "g", where: str = HERE) -> int:
        self.calls += 1
        self.clients[self.calls] = client
        self.events.append(Committing(self.later(), client, self.calls, group, (Place(where, offset),)))
        return self.calls

    def done(self, call: int) -> None:
        self.events.append(Committed(self.later(), self.clients[call], call))

    def commit(self, client: int, offset: int, group: str = "g", where: str = HERE) -> None:
        self.done(self.commits(client, offset, group, where))

    def looks(self, client: int, group: str = "g", where: str = HERE) -> int:
        self.calls += 1
        self.clients[self.calls] = client
        self.events.append(Looking(self.later(), client, self.calls, group, (where,)))
        return self.calls

    def found(self, call: int, offset: int, where: str = HERE) -> None:
        self.events.append(Found(self.later(), self.clients[call], call, (Place(where, offset),)))

    def look(self, client: int, offset: int, group: str = "g", where: str = HERE) -> None:
        self.found(self.looks(client, group, where), offset, where)
