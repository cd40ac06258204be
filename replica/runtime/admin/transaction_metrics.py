"""Measurements of the transactions that one broker coordinates: how many, in which state, and how long they take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from replica.core.transactions.transaction_states import WRITTEN, TxnState
from replica.runtime.coordination.transaction_coordinator_runtime import TransactionCoordinatorRuntime
from zab.admin.exposition import COUNTER, GAUGE, MetricSample

PREFIX: Final = "kafka_coordinator_transaction"
_OPEN: Final = (TxnState.ONGOING, TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT)


def samples(transactions: TransactionCoordinatorRuntime) -> Iterator[MetricSample]:
    """As of now. It looks at every transactional id, so not more often than a person or an exporter would."""
    states: Counter[TxnState] = Counter()
    longest = 0
    for each in transactions.coordinator.transactions:
        states[each.state] += 1
        if each.state in _OPEN:
            longest = max(longest, transactions.now() - each.now.started_ms)
    for state in WRITTEN:
        labels = {"state": state.value}
        about = "transactional ids that are coordinated here, by the state of their last transaction"
        yield MetricSample(f"{PREFIX}_num_transactions", GAUGE, about, states[state], labels)
    yield MetricSample(
        f"{PREFIX}_longest_open_seconds",
        GAUGE,
        "how long the oldest transaction has been open, or has been telling partitions that it is over",
        longest / 1000,
    )
    yield MetricSample(
        f"{PREFIX}_markers_waiting", GAUGE, "partitions that are to be told of an end", transactions.untold
    )
    yield MetricSample(
        f"{PREFIX}_partitions_loading",
        GAUGE,
        "partitions of the topic of transactions that are led here, and whose ids are not served yet",
        len(transactions.coordinator.topic.loading),
    )
    yield MetricSample(
        f"{PREFIX}_timed_out_total",
        COUNTER,
        "transactions that were aborted because they were open for too long",
        transactions.timed_out,
    )
