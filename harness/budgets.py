"""The cost of a recovery without faults: epochs, elections, changes of ISRs, messages and syncs.

A protocol that recovers by electing one leader after the other is wrong. So the events after the last fault have a
budget. Each bound is about twice what 3,000 healthy runs needed at most.

An epoch whose zxids are used up legitimately costs another epoch and another election. The simulator counts these
epochs, from the zxids and the requests of the leader. The number of commits does not show them: a leader whose next
batch does not fit resigns with zxids left, and its last proposals may never commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from attrs import frozen

INVARIANT: Final = "a recovery stays within its budget"
MESSAGES: Final = "messages"
SYNCS: Final = "syncs"
COMMITTED: Final = "committed transactions"
USED_UP: Final = "epochs used up"
"""The counter of leaders that resigned because their next proposals needed more zxids than the epoch had left."""
SHUT_DOWN: Final = "controlled shutdown"
FOLLOWS: Final = "replica follows"
"""The counter of replicas that began to follow a leader, after which each may join the ISR."""


@frozen
class Recovery:
    """The events after the last fault. `counts` holds the increase of each counter of the world."""

    counts: Mapping[str, int]
    servers: int
    took_ms: int

    @property
    def used_up(self) -> int:
        return self.counts.get(USED_UP, 0)


_BUDGETS: Final[Mapping[str, tuple[str, Callable[[Recovery], int]]]] = {
    "established": ("epochs established", lambda recovery: 3 + recovery.used_up),
    "elected": ("servers that found a leader", lambda recovery: (6 + 2 * recovery.used_up) * recovery.servers),
    "controller elected": ("controllers elected", lambda recovery: 2 + recovery.counts.get(SHUT_DOWN, 0)),
    "isr written": ("ISRs written", lambda recovery: 60),
    "replica isr_changed": ("ISRs changed", lambda recovery: 20 + recovery.counts.get(FOLLOWS, 0)),
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
