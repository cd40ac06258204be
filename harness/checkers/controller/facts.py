"""What is seen of controllers and brokers beside what the store has committed."""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen


@frozen
class Registered:
    """A life of a broker has found its node in the store."""

    at: int
    """Microseconds since the run began."""
    broker: int
    life: int
    session: int
    made: int
    """The zxid of its node."""


@frozen
class Reigns:
    """A broker believes that it was elected."""

    at: int
    broker: int
    session: int
    epoch: int


@frozen
class Obeyed:
    """A broker has done what it was told. `meant` is the life that the command was for, -1: any."""

    at: int
    broker: int
    life: int
    meant: int
    controller: int
    epoch: int
    """Of the controller."""


Fact: TypeAlias = Registered | Reigns | Obeyed
