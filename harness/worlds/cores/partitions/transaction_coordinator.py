"""The real `TransactionCoordinator` of a broker, and the real queues of its transaction markers.

A coordinator has one request with markers in flight to each leader. The network may lose the request or its reply. Then
the request fails after a timeout.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any, Final, TypeAlias

from harness.worlds.cores.partitions.coordinator import CoordinatorHost
from kraft_controller.core.names import TRANSACTIONS_TOPIC
from replica.core.errors import ErrorCode
from replica.core.partitions.partition_log import AppendOrigin
from replica.core.replica_messages import Produced
from replica.core.transactions.marker_writes import MarkerWrites
from replica.core.transactions.transaction_coordinator import TransactionCoordinator
from replica.core.transactions.transaction_effects import (
    TimedOut,
    TransactionAppend,
    TransactionReady,
    TransactionsLoaded,
    TransactionStuck,
)
from replica.core.transactions.transaction_marker_manager import (
    MarkerKey,
    MarkerRequest,
    MarkerSettings,
    TransactionMarkerManager,
)
from replica.core.transactions.transaction_messages import AddPartitions, ProducerIdentity, TransactionDone
from replica.core.transactions.transaction_settings import TransactionSettings
from replica.wire import transaction_records
from replica.wire.records import ControlType, batch_of, control_batch

SETTINGS: Final = TransactionSettings(abort_check_ms=80, write_ms=250, again_ms=60)
MARKERS: Final = MarkerSettings(retry_ms=40, check_ms=200)
MARKER_TIMEOUT_MS: Final = 250
"""The timeout of the replication of a marker."""
ANSWER_US: Final = 500_000
"""The timeout of a request with markers."""
BROKEN_SHARE: Final = 0.5
"""The share of runs in which connections of coordinators to leaders break now and then."""
BROKEN: Final = 0.25
"""The probability in such a run that a request with markers, or its reply, is lost with its connection."""
BROKEN_US: Final = 250_000
"""The longest time after which the coordinator notices such a loss."""
Outcomes: TypeAlias = list[tuple[MarkerKey, ErrorCode]]
"""A leader's reply: the outcome of each marker."""
_NOTED: Final[dict[type, str]] = {
    TransactionsLoaded: "transactions loaded",
    TimedOut: "transactions timed out",
    TransactionStuck: "transactions stuck",
}


class Transactions(CoordinatorHost):
    topic = TRANSACTIONS_TOPIC
    _decode = staticmethod(transaction_records.decode)

    def __init__(self, broker: Any) -> None:
        super().__init__(broker)
        self.coordinator = TransactionCoordinator(SETTINGS, broker.clock())
        seed = broker.world.script.seed
        self._breaks = Random(f"{seed}/connections/{broker.id}/{broker.life}")
        self._broken = BROKEN if Random(f"{seed}/connections").random() < BROKEN_SHARE else 0.0
        self.markers = TransactionMarkerManager(broker.metadata, self.coordinator.completion.awaits, MARKERS)

    def _noted(self, note: Any) -> None:
        if type(note) in _NOTED:
            self._broker.world.counted(_NOTED[type(note)])

    def _append(self, append: TransactionAppend) -> None:
        pair = transaction_records.encode_key(append.record), transaction_records.encode_value(append.record)
        self._write(append.id, append.partition, batch_of([pair], append.now_ms), append.timeout_ms)

    @property
    def _deadline(self) -> int | None:
        """The earlier deadline of the markers and the coordinator. A broker that coordinates nothing has none."""
        times = [self.markers.deadline, self.coordinator.deadline if self.coordinator.topic.epochs else math.inf]
        return None if min(times) == math.inf else int(min(times))

    def _ticks(self, now: int) -> None:
        super()._ticks(now)
        unknown = self.markers.tick(now)
        for where in unknown:
            if not self._broker.world.checkers.replicas.exists(where):
                for result in self.markers.deleted(where):
                    self.coordinator.completion.marked(result.marker.number, where, now)
        if unknown:
            self.markers.checked(now)

    def add_offsets(self, sender: ProducerIdentity, group: str, answer: Callable[[Any], None]) -> None:
        """Handle AddOffsetsToTxn. The group coordinator of this broker has the number of partitions."""
        groups = self._broker.groups
        topic = groups.coordinator.topic
        if topic.is_counted():
            self.ask(AddPartitions.storing_offsets(sender, group, topic.partitions), answer)
        else:
            groups.turn()
            answer(TransactionDone(ErrorCode.COORDINATOR_NOT_AVAILABLE))

    # -- markers -----------------------------------------------------------------------------------------

    def _more(self, ready: TransactionReady) -> None:
        for marker in ready.markers:
            self.markers.add(marker, self._broker.clock())
        for leader in self.markers.leaders:
            request = self.markers.next_request(leader)
            if request is not None:
                self._request(request)

    def _request(self, request: MarkerRequest) -> None:
        broker, over = self._broker, False

        def on_reply(outcomes: Outcomes | None) -> None:
            """Handle the reply, or None if there is none."""
            nonlocal over
            if not over:
                over = True
                self._answered(request, outcomes)
                self.turn()

        life = broker.life

        def arrive(leader: Any) -> None:
            def answer(outcomes: Outcomes | None) -> None:
                broker.world.wires.send(
                    leader.id,
                    broker.id,
                    lambda: broker.soon(lambda: on_reply(outcomes)) if broker.life == life else None,
                )

            if leader.up:
                leader.soon(lambda: write_markers(leader, request, answer))
            else:
                answer(None)

        broker.world.counted("marker requests")
        wait_us = ANSWER_US
        if self._breaks.random() < self._broken:
            wait_us = int(self._breaks.random() * BROKEN_US)
        if wait_us == ANSWER_US or self._breaks.random() < 0.5:
            broker.send(request.leader, arrive)
        broker.later(wait_us, lambda: on_reply(None))

    def _answered(self, request: MarkerRequest, outcomes: Outcomes | None) -> None:
        now, completion = self._broker.clock(), self.coordinator.completion
        if outcomes is None:
            self._broker.world.counted("marker requests failed")
            self.markers.failed(request, now)
            return
        for result in self.markers.answered(request, outcomes, now):
            if result.written:
                completion.marked(result.marker.number, result.where, now)
            elif result.refused:
                completion.refused(result.marker.number, result.where, result.error)


def write_markers(leader: Any, request: MarkerRequest, answer: Callable[[Outcomes], None]) -> None:
    """Write the markers of a request as the leader of their partitions. Reply when each of them has an outcome."""
    keys = list(request.markers)
    writes = MarkerWrites(
        len(keys),
        leader.groups.complete_transaction,
        lambda: answer([(keys[place], error) for place, error in writes.outcomes.items()]),
    )

    def write(place: int, key: MarkerKey) -> None:
        marker, where = request.markers[key], key[1]

        def done(results: list[Produced]) -> None:
            [result] = results
            writes.written(place, where, marker.producer, marker.commit, result.error, result.base_offset)

        kind = ControlType.COMMIT if marker.commit else ControlType.ABORT
        batch = control_batch(kind, marker.producer, marker.epoch, marker.coordinator_epoch, leader.clock())
        leader.append(where, batch, MARKER_TIMEOUT_MS, AppendOrigin.COORDINATOR, done)

    for place, key in enumerate(keys):
        write(place, key)
    leader.turn()
