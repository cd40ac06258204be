"""Offsets that groups commit: every reply of a coordinator is compared with the committed records of its topic.

Of two positions the one later in the log of the offsets topic is the newer one, whatever its offset: a new owner of a
partition may begin before the place that the former owner had reached. The workload gives each commit metadata of its
own, by which the checker finds it in the log and in the replies of coordinators.
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
BEARER: Final = "a replaced static member commits no offset"


@define(eq=False)
class _Acknowledged:
    """The place of the newest acknowledged commit of one position.

    fork   of the log then: an unclean election may lose the commit
    """

    fork: int
    newest: int = -1


class Positions:
    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
        self._acknowledged: dict[tuple[Key, bytes], _Acknowledged] = {}
        self._replaced: list[tuple[Commit, object, int]] = []
        self._outdated: set[str] = set()
        """Groups of which a deposed coordinator showed a position."""

    def answered(self, broker: Broker, ask: Ask, reply: Reply) -> None:
        """Check a coordinator's reply."""
        match ask, reply:
            case Commit(who), Committed(errors):
                for where, error in errors.items():
                    if error is ErrorCode.NONE:
                        self._bears(broker, ask)
                        self._committed(broker, who.group, where, ask.positions[where], who.generation)
            case OffsetFetch(group), OffsetsFetched(ErrorCode.NONE, positions):
                for where, shown in positions.items():
                    if not isinstance(shown, ErrorCode):
                        self._shown(broker, group, where, shown)
            case _:
                pass

    def replaced(self, broker: Broker, late: Commit) -> None:
        """The member that requests this was replaced as a static member, by a reply of this coordinator."""
        reign = self._reign(broker, late.identity.group)
        if reign is not None:
            self._replaced.append((late, *reign))

    def _bears(self, broker: Broker, ask: Commit) -> None:
        reign = self._reign(broker, ask.identity.group)
        if reign is not None and any(late is ask and (one, epoch) == reign for late, one, epoch in self._replaced):
            late_member = ask.identity
            what = f"takes a commit of {late_member.member} in {late_member.group}, replaced as {late_member.instance}"
            raise Violation(BEARER, f"broker {broker.id} {what}")

    def _reign(self, broker: Broker, group: str) -> tuple[object, int] | None:
        """Return the coordinator that leads the group now, and its epoch: another one may not know what was not
        written."""
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

    # -- what is committed ---------------------------------------------------------------------------------

    def _committed(
        self, broker: Broker, group: str, where: TopicPartition, position: OffsetAndMetadata, generation: int
    ) -> None:
        found = self._partition(broker, group)
        if found is None or found[0].epoch < found[1].fork:
            return  # it leads for itself alone: somebody not in sync was elected since
        copy, truth = found
        key = _key(group, where)
        place = _newest(truth, key, position)
        if place is None:
            raise Violation(
                STANDS,
                f"{copy.key}: broker {broker.id} acknowledges {position} of {group} in {where}, which is nowhere",
            )
        if generation >= 0:
            self._is_member(broker, truth, group, generation, place)
        known = self._known(truth, key)
        known.newest = max(known.newest, place)
        self._replicas.world.counted("positions acknowledged")

    def _is_member(self, broker: Broker, truth: Truth, group: str, generation: int, place: int) -> None:
        key = group_records.encode_key(GroupRecord(group, None))
        for record in truth.committed[:place]:
            saved = group_records.decode(record.key, record.value) if record.key == key and record.value else None
            if isinstance(saved, GroupRecord) and saved.saved is not None and saved.saved.generation > generation:
                raise Violation(
                    FENCED,
                    f"{truth.key}: broker {broker.id} takes a commit of generation {generation} of {group}, "
                    f"which is in {saved.saved.generation}",
                )

    def _known(self, truth: Truth, key: bytes) -> _Acknowledged:
        known = self._acknowledged.get((truth.key, key))
        if known is None or known.fork != truth.fork:
            known = self._acknowledged[truth.key, key] = _Acknowledged(truth.fork)
        return known

    # -- what is shown -------------------------------------------------------------------------------------

    def _shown(self, broker: Broker, group: str, where: TopicPartition, shown: OffsetAndMetadata | None) -> None:
        found = self._partition(broker, group)
        if found is None:
            self._outdated.add(group)
            return
        copy, truth = found
        if not copy.leads or truth.state is None or copy.epoch != truth.state.leader_epoch or copy.epoch < truth.fork:
            self._outdated.add(group)
            self._replicas.world.counted("positions shown by who leads no more")
            return
        key = _key(group, where)
        place = -1 if shown is None else _newest(truth, key, shown)
        if place is None:
            raise Violation(SHOWN, f"{copy.key}: broker {broker.id} shows {shown} of {group} in {where}: not committed")
        self._replicas.world.counted("positions shown")
        newest = self._known(truth, key).newest
        if place < newest and newest >= copy.start:
            raise Violation(
                KEPT,
                f"{copy.key}: broker {broker.id} shows {shown} of {group} in {where}, which stands at offset {place}, "
                f"and {truth.committed[newest]} at {newest} was acknowledged",
            )

    def doubtful(self, group: str) -> bool:
        """Return whether the group's positions may have gone back legally."""
        truths = self._replicas.truths.items()
        lost = any(key.where.topic == OFFSETS_TOPIC and truth.fork != -1 for key, truth in truths)
        return lost or group in self._outdated

    # -- in the end ----------------------------------------------------------------------------------------

    def unsettled(self) -> str | None:
        """Check that every group has a coordinator that knows its positions."""
        for (key, _), known in self._acknowledged.items():
            state = self._replicas.truths[key].state
            if known.newest < 0 or state is None:
                continue
            leader = self._replicas.world.brokers.get(state.leader)
            if leader is None or leader.groups.coordinator.topic.epochs.get(key.where.partition) != state.leader_epoch:
                return f"broker {state.leader} does not answer for the groups of {key} yet"
        return None


def _key(group: str, where: TopicPartition) -> bytes:
    return group_records.encode_key(OffsetRecord(group, where, None))


def _newest(truth: Truth, key: bytes, position: OffsetAndMetadata) -> int | None:
    """Return its newest place among the committed records, or None."""
    for place in range(len(truth.committed) - 1, -1, -1):
        record = truth.committed[place]
        if record.key == key and record.value:
            found = group_records.decode(key, record.value)
            assert isinstance(found, OffsetRecord)
            assert found.position is not None
            if (found.position.offset, found.position.metadata) == (position.offset, position.metadata):
                return place
    return None
