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
    """Its whole contents, for whoever looks closer."""


@frozen
class Message:
    """From a lane to a lane. `heard` is None for what was lost, or was still under way in the end."""

    source: int
    target: int
    said: int
    heard: int | None
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
    """A fault, for as long as it lasts; without lanes it concerns everybody."""

    begin: int
    end: int
    lanes: tuple[int, ...]
    label: str


@frozen
class Saving:
    """A write on its way to the disk; None: nobody was ever told that it arrived."""

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
    savings: tuple[Saving, ...]
    end: int
    omitted: int
    """Acts at the beginning of the run that are not in the picture, because there are too many."""
