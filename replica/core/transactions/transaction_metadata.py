"""One transactional id, its state and the next states."""

from __future__ import annotations

from attrs import define, evolve, field, frozen

from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode
from replica.core.transactions.transaction_effects import MarkerId, Saved
from replica.core.transactions.transaction_messages import (
    GREATEST_EPOCH,
    NO_EPOCH,
    NO_PRODUCER,
    DescribedTransaction,
    ProducerIdentity,
)
from replica.core.transactions.transaction_states import PREPARED, TxnState

S = TxnState
E = ErrorCode


@frozen
class Next:
    """The state after a write. `last_producer` and `last_epoch` are what a repeated InitProducerId request names."""

    saved: Saved
    last_producer: int = NO_PRODUCER
    last_epoch: int = NO_EPOCH


@define(eq=False)
class TransactionMetadata:
    """A transactional id and its transaction, as Kafka's class of this name. Its methods change nothing else."""

    id: str
    partition: int
    """The partition of the transactions topic to which the id hashes."""
    now: Saved
    """The newest recorded state. Exceptions: `fence` increments the epoch before the new one is recorded, and a new id
    has neither record nor epoch."""
    last_producer: int = NO_PRODUCER
    last_epoch: int = NO_EPOCH
    pending: S | None = None
    """The next state, while it is being written or waits for markers."""
    fence_failed: bool = False
    """True if a write with an incremented epoch failed; then the next attempt to fence does not increment it again."""
    unmarked: dict[TopicPartition, None] = field(factory=dict)
    """Partitions that still need the marker of a decided transaction."""
    marker: MarkerId | None = None

    @property
    def state(self) -> S:
        return self.now.state

    def become(self, after: Next) -> None:
        self.now, self.last_producer, self.last_epoch = after.saved, after.last_producer, after.last_epoch

    # -- producers -----------------------------------------------------------------------------

    def refusal(self, identity: ProducerIdentity) -> E | None:
        """Return the error if this producer may not use the id now."""
        if identity.producer != self.now.producer:
            return E.INVALID_PRODUCER_ID_MAPPING
        if identity.epoch != self.now.epoch:
            return E.PRODUCER_FENCED
        if self.pending is not None:
            return E.CONCURRENT_TRANSACTIONS
        return None

    def knows(self, expected: tuple[int, int] | None) -> bool:
        """Return whether a producer may request the next epoch.

        `expected` is the id and epoch of a producer that resumes after an error. It must have the current producer id,
        or the previous one with an exhausted epoch. A new producer (None) may always, and so may any producer while the
        transactional id has no epoch.
        """
        if expected is None or self.now.epoch == NO_EPOCH:
            return True
        producer, epoch = expected
        return producer == self.now.producer or (producer == self.last_producer and is_last(epoch))

    # -- next states --------------------------------------------------------------------------------

    def needs_id(self, expected: tuple[int, int] | None) -> bool:
        """Return whether the request needs another producer id, because the current one has no unused epoch."""
        return is_last(self.now.epoch) and (expected is None or expected[1] == self.now.epoch)

    def rotated(self, fresh: int, expected: tuple[int, int] | None, timeout_ms: int, now: int) -> Next:
        last = self.now.epoch if expected is not None else NO_EPOCH
        return Next(Saved(fresh, 0, timeout_ms, S.EMPTY, updated_ms=now), self.now.producer, last)

    def bumped(self, expected: tuple[int, int] | None, timeout_ms: int, now: int) -> Next | None:
        """Return the state with the next epoch, or with the same one for a repeated request; None if a newer producer
        has taken over, or no epoch is left."""
        epoch, last = self.now.epoch + 1, NO_EPOCH
        if expected is not None:
            if self.now.epoch == NO_EPOCH or expected[1] == self.now.epoch:
                last = self.now.epoch
            elif expected[1] == self.last_epoch:
                # A repeated request whose answer was lost: a newer producer would have cleared `last_epoch`.
                epoch, last = self.now.epoch, self.last_epoch
            else:
                return None
        if epoch == self.now.epoch + 1 and is_last(self.now.epoch):
            return None
        saved = Saved(self.now.producer, epoch, timeout_ms, S.EMPTY, updated_ms=now)
        last_producer = self.last_producer if epoch == self.now.epoch else self.now.producer
        return Next(saved, last_producer, last)

    def with_partitions(self, added: frozenset[TopicPartition], now: int) -> Next:
        was = frozenset(self.now.partitions) if self.state is S.ONGOING else frozenset()
        started = self.now.started_ms if self.state is S.ONGOING else now
        return self._next(S.ONGOING, tuple(sorted(was | added)), now, started)

    def decided(self, state: S, now: int) -> Next:
        return self._next(state, self.now.partitions, now, self.now.started_ms)

    def completed(self, now: int) -> Next:
        assert self.state in PREPARED
        state = S.COMPLETE_COMMIT if self.state is S.PREPARE_COMMIT else S.COMPLETE_ABORT
        return self._next(state, (), now, self.now.started_ms)

    def _next(self, state: S, partitions: tuple[TopicPartition, ...], now: int, started: int) -> Next:
        saved = evolve(self.now, state=state, partitions=partitions, updated_ms=now, started_ms=started)
        return Next(saved, self.last_producer, self.last_epoch)

    def fence(self) -> None:
        """Increment the epoch, unless a failed fence already did. From then on requests of the current producer are
        refused."""
        if not self.fence_failed:
            assert self.now.epoch < GREATEST_EPOCH
            self.now = evolve(self.now, epoch=self.now.epoch + 1)
        self.last_epoch = NO_EPOCH

    # -- descriptions -------------------------------------------------------------------------------

    def described(self) -> DescribedTransaction:
        now = self.now
        left = tuple(self.unmarked) if self.state in PREPARED else now.partitions
        return DescribedTransaction(E.NONE, now.state, now.producer, now.epoch, now.timeout_ms, now.started_ms, left)


def is_last(epoch: int) -> bool:
    """Return whether the producer's epochs are exhausted. The greatest epoch is reserved for fencing."""
    return epoch >= GREATEST_EPOCH - 1
