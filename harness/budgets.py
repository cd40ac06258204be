"""The cost of a recovery without faults: epochs, elections, changes of ISRs, messages and syncs.

A protocol that recovers by electing one leader after the other is wrong. So the events after the last fault have a
budget. Each bound is about twice what 3,000 healthy runs needed at most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from attrs import frozen

from zab.core.zxid import COUNTER_MAX

INVARIANT: Final = "a recovery stays within its budget"
MESSAGES: Final = "messages"
SYNCS: Final = "syncs"
COMMITTED: Final = "committed transactions"
SHUT_DOWN: Final = "controlled shutdown"


@frozen
class Recovery:
    """The events after the last fault. `counts` holds the increase of each counter of the world."""

    counts: Mapping[str, int]
    servers: int
    took_ms: int
    counter_max: int = COUNTER_MAX
    """The limit of transactions in an epoch. A leader that reaches it resigns."""

    @property
    def full_epochs(self) -> int:
        return -(-self.counts.get(COMMITTED, 0) // self.counter_max) if self.counter_max < COUNTER_MAX else 0


_BUDGETS: Final[Mapping[str, tuple[str, Callable[[Recovery], int]]]] = {
    "established": ("epochs established", lambda recovery: 3 + recovery.full_epochs),
    "elected": ("servers that found a leader", lambda recovery: (6 + 2 * recovery.full_epochs) * recovery.servers),
    "controller elected": ("controllers elected", lambda recovery: 2 + recovery.counts.get(SHUT_DOWN, 0)),
    "isr written": ("ISRs written", lambda recovery: 60),
    "replica isr_changed": ("ISRs changed", lambda recovery: 20),
    MESSAGES: (
        "messages between servers",
        lambda recovery: recovery.servers**2 * (10 + recovery.took_ms // 2),
    ),
    SYNCS: (
        "syncs of files and directories",
        lambda recovery: recovery.servers * (50 + 8 * recovery.counts.get(COMMITTED, 0)) + recovery.took_ms,
    ),
}
"""The meaning and the bound of each counter."""


def exceeded(recovery: Recovery) -> str | None:
    """Return a sentence about the first budget that the recovery exceeded, or None."""
    for counter, (what, bound) in _BUDGETS.items():
        number, most = recovery.counts.get(counter, 0), bound(recovery)
        if number > most:
            return f"{number} {what} in {recovery.took_ms} ms after the last fault; at most {most} are expected"
    return None
