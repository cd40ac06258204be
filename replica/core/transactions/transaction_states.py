"""The states of a producer's transactions, and the only ways from one to another.

`python -m replica.core.transactions.transaction_states` draws the table, as the documentation shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class TxnState(Enum):
    """As they are called on the wire."""

    EMPTY = "Empty"
    """The producer has an id and an epoch, and has written nothing under them yet."""
    ONGOING = "Ongoing"
    """Partitions are in the transaction, and it is open."""
    PREPARE_COMMIT = "PrepareCommit"
    """It is decided, and safe: partitions are being told."""
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    """Every partition knows."""
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    """Not used for so long that it is forgotten."""
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    """An open transaction is taken from its producer, and will be aborted under an epoch that he does not have. Nothing
    of it is written: the abort that follows at once is."""


S = TxnState

TXN_FROM: Final[Mapping[TxnState, frozenset[TxnState]]] = {
    S.EMPTY: frozenset({S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT}),
    S.ONGOING: frozenset({S.ONGOING, S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT}),
    S.PREPARE_COMMIT: frozenset({S.ONGOING}),
    S.PREPARE_ABORT: frozenset({S.ONGOING, S.PREPARE_EPOCH_FENCE}),
    S.COMPLETE_COMMIT: frozenset({S.PREPARE_COMMIT}),
    S.COMPLETE_ABORT: frozenset({S.PREPARE_ABORT}),
    S.DEAD: frozenset({S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT}),
    S.PREPARE_EPOCH_FENCE: frozenset({S.ONGOING}),
}
"""To each state, from which others it may be reached."""

PREPARED: Final = frozenset({S.PREPARE_COMMIT, S.PREPARE_ABORT})
AT_REST: Final = frozenset({S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT})
WRITTEN: Final = tuple(state for state in TxnState if state not in (S.DEAD, S.PREPARE_EPOCH_FENCE))
"""What a transactional id may be found in."""


def may(before: TxnState, after: TxnState) -> bool:
    return before in TXN_FROM[after]


def drawn() -> str:
    """As a diagram in the language that Markdown viewers draw."""
    lines = ["stateDiagram-v2", f"    [*] --> {S.EMPTY.value}"]
    for after, froms in TXN_FROM.items():
        lines += [f"    {before.value} --> {after.value}" for before in TxnState if before in froms]
    return "\n".join(lines)


if __name__ == "__main__":
    import sys

    sys.stdout.write(f"{drawn()}\n")
