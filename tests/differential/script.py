"""A script of plain steps for both servers, which round-trips through its printed form.

A script names no session, zxid or password: values that differ between two servers are symbols (`SEEN`, "right")
that playing fills in.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal, TypeAlias

from attrs import field, frozen

from zab.store.operations import Fields, Op

SEEN: Final = "seen"
"""In place of a zxid: the newest that this client has seen."""
START: Final = "start"
"""In place of a zxid: the newest before the script began."""

Password: TypeAlias = Literal["right", "wrong", "short", "null"]
Zxid: TypeAlias = Literal["seen", "start", "zero", "future"]


def _op(value: int) -> int:
    """Format an operation by its name if it has one, for readable scripts."""
    return Op(value) if value in Op.__members__.values() else value


@frozen(repr=False)
class Connect:
    """A new connection. With the session of client `session`, that one is taken over; with None there is a new one."""

    client: int
    session: int | None = None
    password: Password = "right"
    timeout_ms: int = 30_000
    seen: Zxid = "seen"
    read_only: bool | None = False

    def __repr__(self) -> str:
        named: dict[str, Any] = {"session": None, "password": "right", "timeout_ms": 30_000, "seen": "seen"}
        named["read_only"] = False
        said = [f"{name}={getattr(self, name)!r}" for name, default in named.items() if getattr(self, name) != default]
        return f"Connect({', '.join([str(self.client), *said])})"


@frozen(repr=False)
class Ask:
    """One request; played until its reply, or the end of the connection. Bytes in place of fields are the raw body."""

    client: int
    op: int = field(converter=_op)
    fields: Fields | bytes = ()

    def __repr__(self) -> str:
        op = f"Op.{self.op.name}" if isinstance(self.op, Op) else str(self.op)
        return f"Ask({self.client}, {op}, {_plain(self.fields)})"


@frozen(repr=False)
class Together:
    """Several requests of one client, all sent before the first reply is read."""

    asks: tuple[Ask, ...]

    def __repr__(self) -> str:
        return f"Together(({', '.join(map(repr, self.asks))},))"


@frozen
class Say:
    """Bytes that are no request, after which nothing good is expected; read until the connection ends."""

    client: int
    data: bytes


@frozen
class Drop:
    """The connection is closed without a word; the session stays."""

    client: int


Step: TypeAlias = Connect | Ask | Together | Say | Drop
Script: TypeAlias = tuple[Step, ...]


def _plain(value: object) -> str:
    """Format a value as source text."""
    if isinstance(value, Op):
        return f"Op.{value.name}"
    if isinstance(value, tuple):
        inner = ", ".join(map(_plain, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return repr(value)


def clients_of(step: Step) -> set[int]:
    return {ask.client for ask in step.asks} if isinstance(step, Together) else {step.client}


def count(script: Iterable[Step]) -> int:
    """Requests, those in a multi as one."""
    return sum(len(step.asks) if isinstance(step, Together) else 1 for step in script)


def printed(script: Script) -> str:
    return "(\n" + "".join(f"    {step!r},\n" for step in script) + ")"
