"""The states of a transactional id, and the allowed transitions.

`python -m replica.core.transactions.transaction_states` prints the diagram in the documentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class TxnState(Enum):
    """The states, with their names in Kafka's protocol."""

    EMPTY = "Empty"
    """No transaction was started since the last InitProducerId."""
    ONGOING = "Ongoing"
    """The transaction is open and has partitions."""
    PREPARE_COMMIT = "PrepareCommit"
    """The decision is recorded, and markers are being written to the partitions."""
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    """All partitions have the marker."""
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    """The transactional id has expired and is being removed."""
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    """The producer of an open transaction is fenced by a new epoch, and the transaction is about to be aborted.

    This coordinator never enters the state: it fences and decides to abort in one step.
    """


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
"""The states from which each state may be entered."""

PREPARED: Final = frozenset({S.PREPARE_COMMIT, S.PREPARE_ABORT})
AT_REST: Final = frozenset({S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT})
WRITTEN: Final = tuple(state for state in TxnState if state not in (S.DEAD, S.PREPARE_EPOCH_FENCE))
"""The states that records of the transactions topic may have."""


def may(before: TxnState, after: TxnState) -> bool:
    return before in TXN_FROM[after]


def drawn() -> str:
    """Return the transitions as a Mermaid diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {S.EMPTY.value}"]
    for after, froms in TXN_FROM.items():
        lines += [f"    {before.value} --> {after.value}" for before in TxnState if before in froms]
    return "\n".join(lines)


if __name__ == "__main__":
    import sys

    sys.stdout.write(f"{drawn()}\n")
