"""The last stable offset of each partition, and the records that read_committed consumers receive.

The last stable offset is a function of the committed records alone: it is the start of the oldest transaction without a
committed marker. The checker computes it from the records that it has read, and decodes the markers itself. The topic
of offsets is checked, too, if transactions write to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from harness.checkers.oracle_state import Violation
from harness.checkers.partitions.copies import Copy, Key, Truth, records_of
from harness.checkers.partitions.observed import Broker
from harness.checkers.partitions.replicas import Replicas
from harness.checkers.transactions import Seen
from kraft_controller.core.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from replica.core.partitions.partition import Partition
from replica.core.replica_messages import Fetched

STABLE: Final = "the last stable offset is before every open transaction"
ONWARDS: Final = "a leader's last stable offset does not decrease"
VISIBLE: Final = "a read_committed consumer receives exactly the records of committed transactions"
ENDS: Final = "every transaction ends"


class Stability:
    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
        self._led: dict[tuple[int, Key], tuple[int, int]] = {}
        """The leader epoch and the last stable offset of each leader."""

    def check(self, broker: Broker, partition: Partition, copy: Copy, truth: Truth) -> None:
        """Check a replica whose log or high watermark has changed.

        The replica may lack transactions that began before its log start. A new process has an old high watermark, and
        cannot tell which of the later markers are committed. After an unclean election a follower may have other
        records below its high watermark until it truncates its log.
        """
        if copy.key.where.topic not in self._replicas.world.transacted:
            return
        ledger = self._replicas.ledger(truth)
        watermark, found = partition.high_watermark, partition.stable_offset
        if ledger.incomplete or watermark > len(ledger.transactions):
            return
        expected = ledger.stable[watermark]
        if expected < watermark:
            self._replicas.world.counted("transaction open")
        passed = any(made is not None and made.committed is None for made in ledger.transactions[expected:found])
        wrong = expected >= copy.start and (found < expected or passed)
        if wrong and copy.has_of(truth.committed) >= watermark:
            text = f"broker {broker.id} has last stable offset {found} for high watermark {watermark}, not {expected}"
            raise Violation(STABLE, f"{copy.key}: {text}")
        if not copy.leads:
            self._led.pop((broker.id, copy.key), None)
            return
        epoch, before = self._led.get((broker.id, copy.key), (copy.epoch, found))
        self._led[broker.id, copy.key] = copy.epoch, found
        if epoch == copy.epoch and found < before:
            text = f"decreased its last stable offset from {before} to {found} in leader epoch {epoch}"
            raise Violation(ONWARDS, f"{copy.key}: broker {broker.id} {text}")

    def delivered(self, broker: Broker, where: TopicPartition, offset: int, result: Fetched) -> None:
        """Check the records that a read_committed consumer receives from this offset on."""
        copy = self._replicas.copy(broker.id, where)
        if copy is None or where not in broker.core.partitions:
            return
        truth = self._replicas.truths[copy.key]
        ledger = self._replicas.ledger(truth)
        received = records_of(result.records)
        upto = received[-1][0] + 1 if received else offset
        if copy.epoch < truth.fork or truth.lost or ledger.incomplete or upto > len(ledger.transactions):
            return
        records = truth.committed
        expected = [Seen(at, records[at].value.decode()) for at in range(offset, upto) if ledger.shows(at, records[at])]
        found = list(visible(result, offset))
        if found != expected:
            wrong = next(each for each in [*found, *expected] if (each in found) != (each in expected))
            verb = "receives" if wrong in found else "does not receive"
            text = f"a read_committed consumer of broker {broker.id} {verb} {wrong} between {offset} and {upto}"
            raise Violation(VISIBLE, f"{copy.key}: {text}")

    # -- after the run -------------------------------------------------------------------------------------

    def doubtful(self) -> bool:
        """Return whether records of transactions, or of their coordinators, may have been lost legally."""
        topics = {*self._replicas.world.transacted, TRANSACTIONS_TOPIC}
        lost = any(key.where.topic in topics and truth.fork != -1 for key, truth in self._replicas.truths.items())
        return lost or any(ledger.incomplete for ledger in self._replicas.ledgers.values())

    def unsettled(self) -> str | None:
        """Return an open transaction, as a text; None if there is none.

        A coordinator that lost its records may leave one open.
        """
        if self.doubtful():
            return None
        for truth in self._truths():
            for producer, made in self._replicas.ledger(truth).open.items():
                return f"the transaction of producer {producer} in {truth.key} is open since offset {made.start}"
        return None

    def _truths(self) -> Iterator[Truth]:
        for key, truth in self._replicas.truths.items():
            if key.where.topic in self._replicas.world.transacted and truth.state is not None:
                yield truth

    def readable(self, where: TopicPartition, *, committed: bool) -> int:
        """Return the end offset for consumers. `committed`: for the isolation level read_committed."""
        truth = self._replicas.truth(where)
        ledger = self._replicas.ledger(truth) if committed else None
        return len(truth.committed) if ledger is None or ledger.incomplete else ledger.stable[-1]

    def final(self) -> dict[str, tuple[Seen, ...]]:
        """Return the records that read_committed consumers can read at the end, by partition."""
        found: dict[str, tuple[Seen, ...]] = {}
        for truth in self._truths():
            ledger = self._replicas.ledger(truth)
            if not ledger.incomplete and truth.key.where.topic != OFFSETS_TOPIC:
                shown = [each for each in enumerate(truth.committed) if ledger.shows(*each)]
                found[str(truth.key.where)] = tuple(Seen(at, record.value.decode()) for at, record in shown)
        return found


def visible(result: Fetched, offset: int) -> Iterator[Seen]:
    """Yield the records from an offset on that a read_committed client keeps.

    It drops those of a producer from the first offset of an aborted transaction to the producer's next marker.
    """
    begins = deque(sorted((each.first_offset, each.producer_id) for each in result.aborted))
    aborted: set[int] = set()
    for at, record in records_of(result.records):
        while begins and begins[0][0] <= at:
            aborted.add(begins.popleft()[1])
        if record.control:
            aborted.discard(record.producer)
        elif at >= offset and not (record.transactional and record.producer in aborted):
            yield Seen(at, record.value.decode())
