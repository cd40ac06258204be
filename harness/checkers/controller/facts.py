"""Events of controllers and brokers that the committed changes do not show."""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen


@frozen
class Registered:
    """A process of a broker has found its registration in the store."""

    at: int
    """The time in microseconds since the run began."""
    broker: int
    life: int
    """The number of the broker's process: 1 for the first, and one more for each restart."""
    session: int
    made: int
    """The zxid that created the broker's node, which is its broker epoch."""


@frozen
class BecameController:
    """A broker acts as the elected controller."""

    at: int
    broker: int
    session: int
    epoch: int


@frozen
class CommandApplied:
    """A broker has applied a command of a controller."""

    at: int
    broker: int
    life: int
    meant: int
    """The broker epoch that the command is for. -1: any."""
    controller: int
    """The broker that is the controller."""
    epoch: int
    """The controller epoch of the command."""


Fact: TypeAlias = Registered | BecameController | CommandApplied
