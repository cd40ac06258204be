"""Types and constants for zxids, epochs, server ids, tickets and times.

A zxid is one 64-bit integer: the epoch in the high 32 bits, a counter in the low 32. No transaction has counter 0.
All are plain integers, which keeps the hot path cheap. `NewType` keeps zxids, epochs and server ids from being mixed
up; tickets and times are only aliases of `int`.
"""

from __future__ import annotations

from typing import Final, NewType, TypeAlias

ServerId = NewType("ServerId", int)
"""The number of a server: N in `server.N=...`."""
Epoch = NewType("Epoch", int)
Zxid = NewType("Zxid", int)
"""The place of a transaction in the history: its epoch in the high 32 bits, a counter in the low 32."""
Millis: TypeAlias = int
Ticket: TypeAlias = int

COUNTER_MAX: Final = 0xFFFF_FFFF
EPOCH_MAX: Final = 0x7FFF_FFFF

NEVER: Final[Millis] = 1 << 62
"""Later than any time."""

NOTHING: Final = Zxid(0)
"""The zxid of an empty history."""

UNKNOWN: Final = Zxid(-1)
"""The last zxid of a history that may be incomplete. Its server must not vote before a leader has synchronized it."""


def make(epoch: int, counter: int) -> Zxid:
    return Zxid((epoch << 32) + counter)


def epoch_of(zxid: Zxid) -> Epoch:
    return Epoch(zxid >> 32)


def counter_of(zxid: Zxid) -> int:
    return zxid & COUNTER_MAX


def follows(zxid: Zxid, previous: Zxid) -> bool:
    """Return whether `zxid` may follow `previous` in a history: the next counter, or the first of a later epoch."""
    if zxid >> 32 == previous >> 32:
        return zxid == previous + 1
    return zxid > previous and counter_of(zxid) == 1


def show(zxid: Zxid) -> str:
    """Write a zxid as epoch and counter: `2/1` is the first transaction of epoch 2."""
    return "unknown" if zxid < 0 else f"{zxid >> 32}/{zxid & COUNTER_MAX}"


def parse(text: str) -> Zxid:
    """Parse the output of `show`."""
    if text == "unknown":
        return UNKNOWN
    epoch, slash, counter = text.partition("/")
    if not slash or not epoch.isdigit() or not counter.isdigit():
        raise ValueError(f"expected a zxid like 2/1, not {text!r}")
    return make(int(epoch), int(counter))
