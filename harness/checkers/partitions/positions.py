"""Committed offsets of groups: each coordinator reply is compared with the committed records of the offsets topic.

The later of two positions in the log of the offsets topic is the newer one, even if its offset is smaller: a new owner
of a partition may begin before the place that the former owner had reached. The workload gives each commit unique
metadata, by which the checker finds it in the log and in the replies of coordinators.
"""

from __future__ import annotations

from typing import Final

from attrs import define

from harness.checkers.oracle_state import Violation
from harness.checkers.partitions.copies import Copy, Key, Truth
from harness.checkers.partitions.observed import Broker
from harness.checkers.partitions.replicas import Replicas
from kraft_controller.core.names import OFFSETS_TOPIC, TopicPartition
from replica.core.errors import ErrorCode
from replica.core.groups.group_effects import GroupRecord, OffsetRecord
from replica.core.groups.group_messages import (
    Ask,
    Commit,
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
REPLACED: Final = "a replaced static member commits no offset"


@define(eq=False)
class _Acknowledged:
    """The newest acknowledged commit of one position.

    newest   its offset in the offsets topic
    fork     the fork of the log then; an unclean election may lose the commit
    """

    fork: int
    newest: int = -1


class Positions:
    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
        self._acknowledged: dict[tuple[Key, bytes], _Acknowledged] = {}
        self._replaced: list[tuple[Commit, object, int]] = []
        self._outdated: set[str] = set()
        """The groups whose position a deposed coordinator returned."""

    def answered(self, broker: Broker, ask: Ask, reply: Reply) -> None:
        """Check a coordinator's reply."""
        match ask, reply:
            case Commit(identity), Committed(errors):
                for where, error in errors.items():
                    if error is ErrorCode.NONE:
                        self._check_replaced(broker, ask)
                        self._committed(broker, identity.group, where, ask.positions[where], identity.generation)
            case OffsetFetch(group), OffsetsFetched(ErrorCode.NONE, positions):
                for where, shown in positions.items():
                    if not isinstance(shown, ErrorCode):
                        self._shown(broker, group, where, shown)
            case _:
                pass

    def replaced(self, broker: Broker, late: Commit) -> None:
        """Note that a reply of this coordinator replaced the static member that requests this late commit."""
        serving = self._serving(broker, late.identity.group)
        if serving is not None:
            self._replaced.append((late, *serving))

    def _check_replaced(self, broker: Broker, ask: Commit) -> None:
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
        """Return the group's partition, or None if the disk has failed in this step."""
        where = TopicPartition(OFFSETS_TOPIC, broker.groups.coordinator.topic.partition_of(group))
        copy = self._replicas.copy(broker.id, where)
        if copy is None or where not in broker.core.partitions:
            return None
        return copy, self._replicas.truths[copy.key]

    # -- commits ------------------------------------------------------------------------------------------

    def _committed(
        self, broker: Broker, group: str, where: TopicPartition, position: OffsetAndMetadata, generation: int
    ) -> None:
        found = self._partition(broker, group)
        if found is None or found[0].epoch < found[1].fork:
            return  # it leads for itself only: an unclean leader was elected since
        copy, truth = found
        key = _key(group, where)
        place = _newest(truth, key, position)
        if place is None:
            raise Violation(
                STANDS,
                f"{copy.key}: broker {broker.id} acknowledges {position} of {group} in {where}, which is not committed",
            )
        if generation >= 0:
            self._is_member(broker, truth, group, generation, place)
        known = self._known(truth, key)
        known.newest = max(known.newest, place)
        self._replicas.world.counted("positions acknowledged")

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

    def _shown(self, broker: Broker, group: str, where: TopicPartition, shown: OffsetAndMetadata | None) -> None:
        found = self._partition(broker, group)
        if found is None:
            self._outdated.add(group)
            return
        copy, truth = found
        if not copy.leads or truth.state is None or copy.epoch != truth.state.leader_epoch or copy.epoch < truth.fork:
            self._outdated.add(group)
            self._replicas.world.counted("positions shown by a former leader")
            return
        key = _key(group, where)
        place = _expired(truth, key, broker.groups.retention_ms) if shown is None else _newest(truth, key, shown)
        if place is None:
            raise Violation(SHOWN, f"{copy.key}: broker {broker.id} returns uncommitted {shown} of {group} in {where}")
        self._replicas.world.counted("positions shown")
        if shown is None and place >= 0:
            self._outdated.add(group)
        newest = self._known(truth, key).newest
        if place < newest and newest >= copy.start:
            raise Violation(
                KEPT,
                f"{copy.key}: broker {broker.id} returns {shown} of {group} in {where}, committed at offset {place}, "
                f"but {truth.committed[newest]} at offset {newest} was acknowledged",
            )

    def doubtful(self, group: str) -> bool:
        """Return whether the group's positions may have gone back legally."""
        truths = self._replicas.truths.items()
        lost = any(key.where.topic == OFFSETS_TOPIC and truth.fork != -1 for key, truth in truths)
        return lost or group in self._outdated

    # -- in the end ----------------------------------------------------------------------------------------

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


def _expired(truth: Truth, key: bytes, retention_ms: int) -> int:
    """Return the offset of the deletion of a position's last record, if that was old enough then, or else -1."""
    deleted = -1
    for place in range(len(truth.committed) - 1, -1, -1):
        record = truth.committed[place]
        if record.key == key:
            if record.value:
                old = deleted >= 0 and truth.committed[deleted].time - record.time >= retention_ms
                return deleted if old else -1
            deleted = place
    return deleted


def _newest(truth: Truth, key: bytes, position: OffsetAndMetadata) -> int | None:
    """Return the position's newest offset among the committed records, or None."""
    for place in range(len(truth.committed) - 1, -1, -1):
        record = truth.committed[place]
        if record.key == key and record.value:
            found = group_records.decode(key, record.value)
            assert isinstance(found, OffsetRecord)
            assert found.position is not None
            if (found.position.offset, found.position.metadata) == (position.offset, position.metadata):
                return place
    return None
