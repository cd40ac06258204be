"""The replies to idempotent producers, compared with a model of each log's producer state.

The model decodes the batch headers of the log itself. The log's producer state may hold more than its batches:
retention may have deleted older batches of a producer that a snapshot still has. If those could decide, both replies
are right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from attrs import define, field, frozen

from harness.checkers.oracle_state import Violation
from harness.checkers.partitions.copies import Key, Record, sequence_after
from harness.checkers.partitions.observed import Broker
from harness.checkers.partitions.replicas import log_of
from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode
from replica.core.partitions.leader_role import LeaderRole
from replica.core.partitions.partition import Partition
from replica.core.replica_messages import Produced

REPLIES: Final = "a leader answers idempotent producers as its log requires"
BY_VALUE: Final = "the value of an idempotent send is committed once"

BATCHES: Final = 5
"""The number of a producer's last batches that a leader recognizes when they are sent again."""
_HEADER: Final = Struct(">qiibIhiqqqhii")
_PREFIX: Final = 12
"""The bytes before those that a batch's length counts."""
Judge: TypeAlias = Callable[[list[Produced]], None]


class Sent(NamedTuple):
    """The header of a batch, as far as the producer state depends on it."""

    offset: int
    delta: int
    producer: int
    epoch: int
    sequence: int

    @property
    def last(self) -> int:
        return sequence_after(self.sequence, self.delta)


def headers(data: bytes) -> Iterator[Sent]:
    at = 0
    while at < len(data):
        offset, length, _, _, _, _, delta, _, _, producer, epoch, sequence, _ = _HEADER.unpack_from(data, at)
        yield Sent(offset, delta, producer, epoch, sequence)
        at += _PREFIX + length


@frozen
class Expected:
    """The reply that the log requires. `older`: the offset of a batch that the log has deleted is right as well."""

    error: ErrorCode
    offset: int = -1
    older: bool = False


@define(eq=False)
class _Producer:
    epoch: int
    batches: list[Sent] = field(factory=list)
    """The last batches of this epoch, the oldest first."""
    whole: bool = True
    """True if `batches` has all batches of this epoch, or as many as a leader recognizes."""


@define(eq=False)
class ProducerModel:
    """The producer state of one log, computed from its batches up to offset `end`."""

    partition: Partition
    cuts: int
    start: int
    end: int = 0
    producers: dict[int, _Producer] = field(factory=dict)

    def read(self) -> None:
        log = self.partition.log
        since, end = max(self.end, self.start), log.end_offset
        if since < end:
            for sent in headers(log.read(since, 1 << 30, end).records):
                if sent.offset >= since:
                    self._stored(sent)
        self.end = end

    def _stored(self, sent: Sent) -> None:
        known = self.producers.get(sent.producer)
        if known is None or known.epoch != sent.epoch:
            # A producer epoch that is new here may have begun before the log start.
            whole = known is not None or self.start == 0
            known = self.producers[sent.producer] = _Producer(sent.epoch, whole=whole)
        if sent.sequence < 0:
            return  # a marker, or another batch of a coordinator
        known.batches.append(sent)
        if len(known.batches) >= BATCHES:
            del known.batches[:-BATCHES]
            known.whole = True

    def expects(self, sent: Sent) -> Expected | None:
        """Return the reply to this batch; None if the log's batches do not decide it."""
        known = self.producers.get(sent.producer)
        if known is None:
            return Expected(ErrorCode.NONE, self.end) if self.start == 0 else None
        if sent.epoch < known.epoch:
            return Expected(ErrorCode.INVALID_PRODUCER_EPOCH)
        if sent.epoch > known.epoch:
            error = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if sent.sequence else ErrorCode.NONE
            return Expected(error, self.end)
        for batch in known.batches:
            if (batch.sequence, batch.delta) == (sent.sequence, sent.delta):
                return Expected(ErrorCode.NONE, batch.offset)
        if not known.batches:
            return Expected(ErrorCode.NONE, self.end) if known.whole else None
        if sent.sequence == sequence_after(known.batches[-1].last, 1):
            return Expected(ErrorCode.NONE, self.end)
        return Expected(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, older=not known.whole)


class Producers:
    """Judges replies to idempotent producers, and the values that are committed.

    A producer may send the values of its batches again, under a new id, only after a leader refused a batch.
    """

    def __init__(self) -> None:
        self._models: dict[tuple[int, TopicPartition], ProducerModel] = {}
        self._values: dict[Key, dict[bytes, int]] = {}
        """The offsets of the committed values of idempotent sends."""
        self._refused: set[int] = set()
        """The producer ids of which a leader has refused a batch legally."""
        self._ended: set[int] = set()
        """The refused ids that their producer has replaced since."""

    def gives_up(self, producer: int) -> None:
        """Note that a producer sends all its unacknowledged values again, under another id."""
        if producer in self._refused:
            self._ended.add(producer)

    def judge(self, broker: Broker, where: TopicPartition, data: bytes) -> Judge | None:
        """Return the judge of the reply to a batch that is about to be appended; None if any reply is right."""
        partition = broker.core.partitions.get(where)
        if partition is None or not isinstance(partition.role, LeaderRole):
            return None
        [sent] = headers(data)
        if sent.producer < 0:
            return None
        log, place = log_of(broker, where), (broker.id, where)
        if log is None or log.closed or broker.disk.files.errors.failed is not None:
            return None
        model = self._models.get(place)
        cuts, start = partition.cuts, log.start_offset
        if model is None or model.partition is not partition or (model.cuts, model.start) != (cuts, start):
            model = self._models[place] = ProducerModel(partition, cuts, start)
        with broker.disk.files.aside():
            model.read()
        expected = model.expects(sent)

        def judged(results: list[Produced]) -> None:
            [result] = results
            refused = result.error in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH)
            if expected is not None and (refused or not result.error):
                offset = result.base_offset
                right = result.error == expected.error and (refused or offset == expected.offset)
                if not right and not (expected.older and not refused and offset < start):
                    wanted = expected.error.name if expected.error else f"offset {expected.offset}"
                    text = f"answers {sent} with {result.error.name} and offset {offset}, not with {wanted}"
                    raise Violation(REPLIES, f"{where}: broker {broker.id} {text}")
            if refused:
                self._refused.add(sent.producer)

        return judged

    def committed(self, key: Key, committed: list[Record], since: int, start: int) -> None:
        """Check the records that were committed from offset `since` on, by a leader whose log begins at `start`.

        The leader may have forgotten batches before its log start, and store one of them again.
        """
        values = self._values.setdefault(key, {})
        for offset, record in enumerate(committed[since:], start=since):
            if record.sequence < 0:
                continue
            at = values.get(record.value, offset)
            values[record.value] = offset
            if not start <= at < offset or committed[at].value != record.value:
                continue  # this is the first one, or an unclean election or a disk has lost the earlier one
            before = committed[at]
            if before.producer == record.producer or min(before.producer, record.producer) not in self._ended:
                text = f"the value of {record} at offset {offset} was also committed in {before} at offset {at}"
                raise Violation(BY_VALUE, f"{key}: {text}")
