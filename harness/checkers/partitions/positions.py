"""Committed offsets of groups: each coordinator reply is compared with the committed records of the offsets topic.

The later of two positions in the log of the offsets topic is the newer one, even if its offset is smaller: a new owner
of a partition may begin before the place that the former owner had reached. The workload gives each commit unique
metadata, by which the checker finds it in the log and in the replies of coordinators.

A transaction may commit offsets, too. Such an offset takes effect with the marker of its transaction, but its place in
the order is that of its own record. The checker decodes the transactions and their markers itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final

from attrs import define, field

from harness.checkers.oracle_state import Violation
from harness.checkers.partitions.copies import Copy, Key, Record, Truth
from harness.checkers.partitions.observed import Broker
from harness.checkers.partitions.replicas import Replicas
from kraft_controller.core.names import OFFSETS_TOPIC, TopicPartition
from replica.core.errors import ErrorCode
from replica.core.groups.group_effects import GroupRecord, OffsetRecord
from replica.core.groups.group_messages import (
    Ask,
    Commit,
    CommitInTransaction,
    Committed,
    OffsetAndMetadata,
    OffsetFetch,
    OffsetsFetched,
    Reply,
)
from replica.wire import group_records

STANDS: Final = "an acknowledged offset commit is a committed record"
KEPT: Final = "an acknowledged committed offset is neither lost nor set back"
SHOWN: Final = "only committed offsets are shown"
FENCED: Final = "a former member of a group commits no offset"
WITH_MARKER: Final = "an offset that a transaction commits is shown if and only if the transaction committed"
STABLE: Final = "a stable offset is refused if and only if an open transaction may replace it"
FENCED_PRODUCER: Final = "a fenced transactional producer commits no offset"
REPLACED: Final = "a replaced static member commits no offset"


@define(eq=False)
class _Acknowledged:
    """The acknowledged commits of one position.

    newest    the offset in the offsets topic of the newest one. A commit in a transaction counts from the
              acknowledgement of the transaction's marker on
    pending   the offset of the newest acknowledged commit in a transaction, by producer
    fork      the fork of the log then; an unclean election may lose the commit
    """

    fork: int
    newest: int = -1
    pending: dict[int, int] = field(factory=dict)


class Positions:
    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
        self._acknowledged: dict[tuple[Key, bytes], _Acknowledged] = {}
        self._replaced: list[tuple[Commit, object, int]] = []
        self._ended: dict[tuple[Key, int], int] = {}
        """The offset of the newest acknowledged marker, by partition and producer."""
        self._outdated: set[str] = set()
        """The groups whose position a deposed coordinator returned."""

    def answered(self, broker: Broker, ask: Ask, reply: Reply) -> None:
        """Check a coordinator's reply."""
        match ask, reply:
            case Commit() | CommitInTransaction(), Committed(errors):
                for where, error in errors.items():
                    if error is ErrorCode.NONE:
                        self._check_replaced(broker, ask)
                        self._committed(broker, ask, where)
            case OffsetFetch(group), OffsetsFetched(ErrorCode.NONE, positions):
                for where, shown in positions.items():
                    if not isinstance(shown, ErrorCode):
                        self._shown(broker, group, where, shown)
                    self._check_stable(broker, ask, where, shown)
            case _:
                pass

    def replaced(self, broker: Broker, late: Commit) -> None:
        """Note that a reply of this coordinator replaced the static member that requests this late commit."""
        serving = self._serving(broker, late.identity.group)
        if serving is not None:
            self._replaced.append((late, *serving))

    def _check_replaced(self, broker: Broker, ask: Commit | CommitInTransaction) -> None:
        serving = self._serving(broker, ask.identity.group)
        if any(late is ask and (one, epoch) == serving for late, one, epoch in self._replaced):
            member = ask.identity
            what = f"accepts a commit of {member.member} in {member.group}, which was replaced as {member.instance}"
            raise Violation(REPLACED, f"broker {broker.id} {what}")

    def _serving(self, broker: Broker, group: str) -> tuple[object, int] | None:
        """Return the coordinator that serves the group now, and its epoch. Another coordinator may lack unwritten
        changes."""
        coordinator = broker.groups.coordinator
        topic = coordinator.topic
        epoch = None if topic.partitions is None else topic.epochs.get(topic.partition_of(group))
        return None if epoch is None else (coordinator, epoch)

    def _partition(self, broker: Broker, group: str) -> tuple[Copy, Truth] | None:
        """Return the group's partition, or None if it is unknown, or if the disk has failed in this step."""
        topic = broker.groups.coordinator.topic
        if topic.partitions is None:
            return None
        where = TopicPartition(OFFSETS_TOPIC, topic.partition_of(group))
        copy = self._replicas.copy(broker.id, where)
        if copy is None or where not in broker.core.partitions:
            return None
        return copy, self._replicas.truths[copy.key]

    # -- commits ------------------------------------------------------------------------------------------

    def _committed(self, broker: Broker, ask: Commit | CommitInTransaction, where: TopicPartition) -> None:
        group, position = ask.identity.group, ask.positions[where]
        found = self._partition(broker, group)
        if found is None or found[0].epoch < found[1].fork:
            return  # it leads for itself only: an unclean leader was elected since
        copy, truth = found
        key = _key(group, where)
        producer = ask.producer if isinstance(ask, CommitInTransaction) else None
        place = next((at for at in _places(truth, key, position) if _writer(truth.committed[at]) == producer), None)
        if place is None:
            within = "" if producer is None else f" in a transaction of producer {producer}"
            raise Violation(
                STANDS,
                f"{copy.key}: broker {broker.id} acknowledges {position} of {group} in {where}{within}, "
                "which is not committed",
            )
        if ask.identity.generation >= 0:
            self._is_member(broker, truth, group, ask.identity.generation, place)
        known = self._known(truth, key)
        if isinstance(ask, CommitInTransaction):
            _check_epoch(broker, truth, ask, place)
            known.pending[ask.producer] = max(known.pending.get(ask.producer, -1), place)
            self._replicas.world.counted("positions acknowledged in transactions")
        else:
            known.newest = max(known.newest, place)
            self._replicas.world.counted("positions acknowledged")

    def ended(self, broker: Broker, partition: int, producer: int, offset: int) -> None:
        """Note the acknowledged marker of a producer. From now on its commits before this offset have taken effect."""
        where = TopicPartition(OFFSETS_TOPIC, partition)
        copy = self._replicas.copy(broker.id, where)
        if copy is None or where not in broker.core.partitions or copy.epoch < self._replicas.truths[copy.key].fork:
            return
        truth = self._replicas.truths[copy.key]
        ledger, ended = self._replicas.ledger(truth), (copy.key, producer)
        for place in range(self._ended.get(ended, -1) + 1, min(offset, len(truth.committed))):
            made, record = ledger.transactions[place], truth.committed[place]
            if made is not None and made.committed is True and record.producer == producer:
                known = self._known(truth, record.key)
                known.newest = max(known.newest, place)
        self._ended[ended] = max(self._ended.get(ended, -1), offset)
        self._replicas.world.counted("markers of positions")

    def _is_member(self, broker: Broker, truth: Truth, group: str, generation: int, place: int) -> None:
        key = group_records.encode_key(GroupRecord(group, None))
        newest = -1
        for record in truth.committed[:place]:
            if record.key == key and not record.value:
                newest = -1  # the group was deleted, and its name may be used again
            elif record.key == key:
                found = group_records.decode(key, record.value)
                assert isinstance(found, GroupRecord)
                assert found.saved is not None
                newest = max(newest, found.saved.generation)
        if newest > generation:
            raise Violation(
                FENCED,
                f"{truth.key}: broker {broker.id} accepts a commit of generation {generation} of {group}, "
                f"which is in generation {newest}",
            )

    def _known(self, truth: Truth, key: bytes) -> _Acknowledged:
        known = self._acknowledged.get((truth.key, key))
        if known is None or known.fork != truth.fork:
            known = self._acknowledged[truth.key, key] = _Acknowledged(truth.fork)
        return known

    # -- fetches ------------------------------------------------------------------------------------------

    def led(self, broker: Broker, group: str) -> tuple[Copy, Truth] | None:
        """Return the group's partition if the broker is its leader in the store; a former leader may not know it."""
        found = self._partition(broker, group)
        if found is None:
            return None
        copy, truth = found
        state = truth.state
        return found if copy.leads and state and copy.epoch == state.leader_epoch >= truth.fork else None

    def _shown(self, broker: Broker, group: str, where: TopicPartition, shown: OffsetAndMetadata | None) -> None:
        found = self.led(broker, group)
        if found is None:
            self._outdated.add(group)
            if self._partition(broker, group) is not None:
                self._replicas.world.counted("positions shown by a former leader")
            return
        copy, truth = found
        key = _key(group, where)
        if shown is None:
            place: int | None = self._expired(truth, key, broker.groups.retention_ms)
        else:
            place = self._newest(truth, key, shown)
        if place is None:
            raise Violation(SHOWN, f"{copy.key}: broker {broker.id} returns uncommitted {shown} of {group} in {where}")
        if not self._counts(truth, place):
            made = self._replicas.ledger(truth).transactions[place]
            state = "was aborted" if made is not None and made.committed is False else "is open"
            text = f"broker {broker.id} returns {shown} of {group} in {where}, whose transaction {state}"
            raise Violation(WITH_MARKER, f"{copy.key}: {text}")
        self._replicas.world.counted("positions shown")
        if shown is None and place >= 0:
            self._outdated.add(group)
        newest = self._known(truth, key).newest
        if place < newest and newest >= copy.start:
            raise Violation(
                WITH_MARKER if truth.committed[newest].transactional else KEPT,
                f"{copy.key}: broker {broker.id} returns {shown} of {group} in {where}, committed at offset {place}, "
                f"but {truth.committed[newest]} at offset {newest} was acknowledged",
            )

    def _check_stable(
        self, broker: Broker, ask: OffsetFetch, where: TopicPartition, shown: OffsetAndMetadata | ErrorCode | None
    ) -> None:
        """Check that a position is refused as unstable, or that it is not.

        A commit that was acknowledged certainly waits for the marker. A commit that is only in the log may wait. So may
        one whose marker is committed, but was not acknowledged to the transaction coordinator, which sends it again.
        """
        refused = shown is ErrorCode.UNSTABLE_OFFSET_COMMIT
        if not refused and (not ask.stable or isinstance(shown, ErrorCode)):
            return
        found = self.led(broker, ask.group)
        if found is None:
            return
        copy, truth = found
        if truth.fork != -1:
            return
        key, world = _key(ask.group, where), self._replicas.world
        if not refused:
            waits = self._waits(truth, key)
            if waits is not None:
                text = f"returns {shown} of {ask.group} in {where} as stable"
                what = f"{truth.committed[waits]} at offset {waits} waits for the end of its transaction"
                raise Violation(STABLE, f"{copy.key}: broker {broker.id} {text}, but {what}")
            world.counted("stable positions shown")
            return
        upto = len(truth.committed)
        records = chain(enumerate(truth.committed), enumerate(copy.records[upto:], upto))
        may = any(
            record.key == key and record.transactional and at > self._ended.get((copy.key, record.producer), -1)
            for at, record in records
        )
        if not (ask.stable and may):
            text = f"refuses {ask.group} in {where} as unstable"
            what = "no transaction may replace it" if ask.stable else "the request does not wait for transactions"
            raise Violation(STABLE, f"{copy.key}: broker {broker.id} {text}, but {what}")
        world.counted("positions unstable")

    def _waits(self, truth: Truth, key: bytes) -> int | None:
        """Return the offset of an acknowledged commit whose transaction has no committed marker, or None."""
        pending = self._known(truth, key).pending
        if not pending:
            return None
        transactions = self._replicas.ledger(truth).transactions
        return next((at for at in pending.values() if (made := transactions[at]) and made.committed is None), None)

    def doubtful(self, group: str) -> bool:
        """Return whether the group's positions may have gone back legally."""
        truths = self._replicas.truths.items()
        lost = any(key.where.topic == OFFSETS_TOPIC and truth.fork != -1 for key, truth in truths)
        return lost or group in self._outdated

    # -- the records of a position -------------------------------------------------------------------------

    def _counts(self, truth: Truth, place: int) -> bool:
        """Return whether the record at this offset has taken effect, because it is in no transaction, or because its
        transaction committed. -1, no record, counts."""
        if place < 0 or not truth.committed[place].transactional:
            return True
        ledger = self._replicas.ledger(truth)
        return ledger.incomplete or ledger.shows(place, truth.committed[place])

    def _newest(self, truth: Truth, key: bytes, position: OffsetAndMetadata) -> int | None:
        """Return the offset of the position's newest record, of one that counts if there is any, or None."""
        newest = None
        for place in _places(truth, key, position):
            if self._counts(truth, place):
                return place
            newest = place if newest is None else newest
        return newest

    def _expired(self, truth: Truth, key: bytes, retention_ms: int) -> int:
        """Return the offset of the deletion of a position's last record, if that was old enough then, or else -1."""
        deleted = -1
        for place, record in _newest_first(truth, key):
            if self._counts(truth, place):
                if record.value:
                    old = deleted >= 0 and truth.committed[deleted].time - record.time >= retention_ms
                    return deleted if old else -1
                deleted = place
        return deleted

    # -- in the end ----------------------------------------------------------------------------------------

    def final(self, group: str, where: TopicPartition) -> int | None:
        """Return the group's offset at the end, by the committed records; None if it has none."""
        counting = (record for at, record, truth in self._changes(group, where) if self._counts(truth, at))
        newest = next(counting, None)
        return _position_in(newest).offset if newest is not None and newest.value else None

    def deleted(self, group: str, where: TopicPartition) -> bool:
        """Return whether the group's offset was ever deleted, because it was old."""
        return any(not record.value for _, record, _ in self._changes(group, where))

    def _changes(self, group: str, where: TopicPartition) -> Iterator[tuple[int, Record, Truth]]:
        """Yield the committed records of a position with their offsets, the newest first."""
        key = _key(group, where)
        for truth in self._replicas.truths.values():
            if truth.key.where.topic == OFFSETS_TOPIC:
                yield from ((at, record, truth) for at, record in _newest_first(truth, key))

    def unsettled(self) -> str | None:
        """Return a message unless the leader of each offsets partition with commits serves its groups."""
        for (key, _), known in self._acknowledged.items():
            state = self._replicas.truths[key].state
            if known.newest < 0 or state is None:
                continue
            leader = self._replicas.world.brokers.get(state.leader)
            if leader is None or leader.groups.coordinator.topic.epochs.get(key.where.partition) != state.leader_epoch:
                return f"broker {state.leader} does not serve the groups of {key}"
        return None


def _key(group: str, where: TopicPartition) -> bytes:
    return group_records.encode_key(OffsetRecord(group, where, None))


def _places(truth: Truth, key: bytes, position: OffsetAndMetadata) -> Iterator[int]:
    """Yield the offsets of the position's committed records, the newest first."""
    for place, record in _newest_first(truth, key):
        if record.value:
            found = _position_in(record)
            if (found.offset, found.metadata) == (position.offset, position.metadata):
                yield place


def _newest_first(truth: Truth, key: bytes) -> Iterator[tuple[int, Record]]:
    """Yield the committed records with this key, with their offsets."""
    for place in range(len(truth.committed) - 1, -1, -1):
        if truth.committed[place].key == key:
            yield place, truth.committed[place]


def _position_in(record: Record) -> OffsetAndMetadata:
    found = group_records.decode(record.key, record.value)
    assert isinstance(found, OffsetRecord)
    assert found.position is not None
    return found.position


def _writer(record: Record) -> int | None:
    """Return the transactional producer of a record, or None."""
    return record.producer if record.transactional else None


def _check_epoch(broker: Broker, truth: Truth, ask: CommitInTransaction, place: int) -> None:
    """Check that no newer epoch of the producer has a marker before its commit."""
    for at, record in enumerate(truth.committed[:place]):
        if record.control and record.producer == ask.producer and record.producer_epoch > ask.epoch:
            text = f"accepts a commit of epoch {ask.epoch} of producer {ask.producer} in {ask.identity.group}"
            what = f"epoch {record.producer_epoch} has a marker at offset {at}"
            raise Violation(FENCED_PRODUCER, f"{truth.key}: broker {broker.id} {text}, but {what}")
