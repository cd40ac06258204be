"""Metrics of the transactions that one broker coordinates: their number, states and age."""

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
    """Yield the current metrics. The cost grows with the number of transactional ids: call it once a scrape."""
    states: Counter[TxnState] = Counter()
    longest = 0
    for each in transactions.coordinator.transactions:
        states[each.state] += 1
        if each.state in _OPEN:
            longest = max(longest, transactions.now() - each.now.started_ms)
    for state in WRITTEN:
        labels = {"state": state.value}
        about = "transactional ids coordinated here, by the state of their last transaction"
        yield MetricSample(f"{PREFIX}_num_transactions", GAUGE, about, states[state], labels)
    yield MetricSample(
        f"{PREFIX}_longest_open_seconds",
        GAUGE,
        "age of the oldest transaction that is open or lacks a marker in some partition",
        longest / 1000,
    )
    yield MetricSample(
        f"{PREFIX}_markers_waiting",
        GAUGE,
        "transaction markers that wait to be sent, or sent again, counted once for each partition",
        transactions.markers_pending,
    )
    yield MetricSample(
        f"{PREFIX}_partitions_loading",
        GAUGE,
        "partitions of the transactions topic led here that are still being loaded: their ids are not served yet",
        len(transactions.coordinator.topic.loading),
    )
    yield MetricSample(
        f"{PREFIX}_timed_out_total",
        COUNTER,
        "attempts to abort transactions that exceeded their timeout, since the start",
        transactions.timed_out,
    )
