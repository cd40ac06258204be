"""The contents of the picture, as plain data. Times are in microseconds; an event's id is its place in the list."""

from __future__ import annotations

from attrs import frozen


@frozen
class Lane:
    name: str
    server: bool


@frozen
class Event:
    at: int
    lane: int
    family: str
    label: str
    text: str
    """The complete text of the event, shown on demand."""


@frozen
class Message:
    """A message from a lane to a lane. `received` is None if it was lost, or still under way at the end."""

    source: int
    target: int
    sent: int
    received: int | None
    lost: bool
    family: str
    label: str


@frozen
class Band:
    """The state of a server for some time. `state`: down, looking, joins, follows, elected, leads, paused."""

    lane: int
    begin: int
    end: int
    state: str
    label: str


@frozen
class Shade:
    """A fault from its begin to its end. Without lanes it affects all servers."""

    begin: int
    end: int
    lanes: tuple[int, ...]
    label: str


@frozen
class DiskWrite:
    """A write to the disk. `end` is None if the disk never reported it durable."""

    lane: int
    begin: int
    end: int | None
    label: str


@frozen
class Picture:
    lanes: tuple[Lane, ...]
    events: tuple[Event, ...]
    messages: tuple[Message, ...]
    bands: tuple[Band, ...]
    shades: tuple[Shade, ...]
    disk_writes: tuple[DiskWrite, ...]
    end: int
    omitted: int
    """The number of acts at the beginning of the run that are left out, because there are too many."""
