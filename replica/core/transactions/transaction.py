"""What is known of one transactional id, and what it may become next. Changes itself and nothing else."""

from __future__ import annotations

from attrs import define, evolve, field, frozen

from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode
from replica.core.transactions.messages import GREATEST_EPOCH, NO_EPOCH, NO_PRODUCER, Described, Identity
from replica.core.transactions.ready import MarkerId, Saved
from replica.core.transactions.states import PREPARED, TxnState

S = TxnState
E = ErrorCode


@frozen
class Next:
    """What it becomes when it is written. `last_`: of before, by which a producer is known whose answer was lost."""

    saved: Saved
    last_producer: int = NO_PRODUCER
    last_epoch: int = NO_EPOCH


@define(eq=False)
class Transaction:
    """partition     of the topic of transactions
    now           as it is, and stands in the topic; but for a new one, which has no epoch yet
    pending       what is being written, or will be when all partitions know how it ended
    fence_failed  the epoch was counted up to fence somebody, and that could not be written: it need not be done again
    unmarked      partitions that do not know yet how it ended
    """

    id: str
    partition: int
    now: Saved
    last_producer: int = NO_PRODUCER
    last_epoch: int = NO_EPOCH
    pending: S | None = None
    fence_failed: bool = False
    unmarked: dict[TopicPartition, None] = field(factory=dict)
    marker: MarkerId | None = None

    @property
    def state(self) -> S:
        return self.now.state

    def become(self, after: Next) -> None:
        self.now, self.last_producer, self.last_epoch = after.saved, after.last_producer, after.last_epoch

    # -- who may do something -----------------------------------------------------------------------------

    def refusal(self, who: Identity) -> E | None:
        """Why he is not, or not any more, who may use it now."""
        if who.producer != self.now.producer:
            return E.INVALID_PRODUCER_ID_MAPPING
        if who.epoch != self.now.epoch:
            return E.PRODUCER_FENCED
        if self.pending is not None:
            return E.CONCURRENT_TRANSACTIONS
        return None

    def knows(self, expected: tuple[int, int] | None) -> bool:
        """Who goes on after an error is its producer; or was it until now, and had no epoch left."""
        if expected is None or self.now.epoch == NO_EPOCH:
            return True
        producer, epoch = expected
        return producer == self.now.producer or (producer == self.last_producer and is_last(epoch))

    # -- what it may become --------------------------------------------------------------------------------

    def needs_id(self, expected: tuple[int, int] | None) -> bool:
        """There is no epoch left under this producer id."""
        return is_last(self.now.epoch) and (expected is None or expected[1] == self.now.epoch)

    def rotated(self, fresh: int, expected: tuple[int, int] | None, timeout_ms: int, now: int) -> Next:
        last = self.now.epoch if expected is not None else NO_EPOCH
        return Next(Saved(fresh, 0, timeout_ms, S.EMPTY, updated_ms=now), self.now.producer, last)

    def bumped(self, expected: tuple[int, int] | None, timeout_ms: int, now: int) -> Next | None:
        """None: another one has come since."""
        epoch, last = self.now.epoch + 1, NO_EPOCH
        if expected is not None:
            if self.now.epoch == NO_EPOCH or expected[1] == self.now.epoch:
                last = self.now.epoch
            elif expected[1] == self.last_epoch:
                # It has been done, and he has not heard of it: nobody else came, or this would not be remembered.
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
        """Its producer is not believed from now on."""
        if not self.fence_failed:
            assert self.now.epoch < GREATEST_EPOCH
            self.now = evolve(self.now, epoch=self.now.epoch + 1)
        self.last_epoch = NO_EPOCH

    # -- as others see it ----------------------------------------------------------------------------------

    def described(self) -> Described:
        now = self.now
        left = tuple(self.unmarked) if self.state in PREPARED else now.partitions
        return Described(E.NONE, now.state, now.producer, now.epoch, now.timeout_ms, now.started_ms, left)


def is_last(epoch: int) -> bool:
    """The one behind it is for fencing whoever has it, and is given to nobody."""
    return epoch >= GREATEST_EPOCH - 1
