"""Settled brokers after the last fault, and corruptions of that state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from attrs import define, evolve, field

from harness.checkers.partitions.settled import apart, unequal
from kraft_controller.core.names import OFFSETS_TOPIC, BrokerId, LeaderEpoch, TopicId, TopicPartition, Version
from kraft_controller.core.state import PartitionState
from kraft_controller.wire import znodes
from replica.core.partitions.follower_role import FollowerRole
from replica.core.partitions.isr import Isr
from replica.core.partitions.leader_role import LeaderRole
from replica.core.partitions.partition import Partition
from tests.histories.controller.scenario import ADMIN, held
from tests.histories.partitions.scenario import (
    ELSEWHERE,
    HERE,
    ONE,
    THREE,
    TWO,
    Committer,
    Consumer,
    Member,
    Producer,
    Scenario,
)

if TYPE_CHECKING:
    from harness.worlds.cores.partitions.broker import PartitionBroker
    from harness.worlds.cores.partitions.world import PartitionsWorld

POSITIONS: Final = TopicPartition(OFFSETS_TOPIC, 0)
STATE: Final = PartitionState(ONE, (ONE, TWO), LeaderEpoch(1), version=Version(6))


@define
class SettledCluster:
    """Partition t1-0 with three records, two producers and two consumers.

    Broker 1 leads, broker 2 follows, and broker 3 has no replica.
    """

    scenario: Scenario = field(factory=Scenario)
    data: dict[str, bytes | None] = field(factory=dict)
    versions: dict[str, int] = field(factory=dict)
    brokers: int = 3

    def __attrs_post_init__(self) -> None:
        scenario = self.scenario
        scenario.topic(1, 2)
        scenario.state(1, [1, 2], 1)
        scenario.follows(TWO, ONE, 1)
        scenario.has(TWO, "a1 b1 c1")
        scenario.leads(ONE, 1, STATE.isr)
        self.role().isr = Isr(STATE.isr, STATE.version)
        scenario.has(ONE, "a1 b1 c1", hw=3)
        scenario.watermark(TWO, 3)
        self.data[znodes.CONTROLLER] = znodes.controller(ONE, 0)
        self.data[znodes.topic_path("t1")] = znodes.topic(TopicId("1" * 22), {0: held(1, 2)})
        self.write_state(STATE)
        for broker in (ONE, TWO, THREE):
            self.data[znodes.broker_path(broker)] = b""
            self.broker(broker).metadata.states[HERE] = STATE
        for broker in (ONE, TWO):
            scenario.partition(broker).assignment = held(1, 2)
        workload = scenario.world.workload
        workload.producers = {(each, HERE, "all"): Producer(HERE) for each in (1, 2)}
        workload.consumers = {(each, HERE): Consumer(each, HERE, 3) for each in (1, 2)}

    def write_state(self, state: PartitionState) -> None:
        self.data[znodes.state_path(HERE)] = znodes.partition_state(state)
        self.versions[znodes.state_path(HERE)] = state.version

    def broker(self, broker: BrokerId) -> Member:
        return self.scenario.broker(broker)

    def partition(self, broker: BrokerId) -> Partition:
        return self.scenario.partition(broker)

    def role(self) -> LeaderRole:
        role = self.scenario.partition(ONE).role
        assert isinstance(role, LeaderRole)
        return role

    def result(self) -> tuple[str | None, str | None]:
        brokers = cast("dict[BrokerId, PartitionBroker]", self.scenario.world.brokers)
        world = cast("PartitionsWorld", self.scenario.world)
        return apart(self.data, self.versions, brokers, self.brokers), unequal(world.checkers)


Corrupt: TypeAlias = Callable[[SettledCluster], None]


def _received(broker: BrokerId, state: PartitionState) -> Corrupt:
    return lambda cluster: cluster.broker(broker).metadata.states.update({HERE: state})


def _no_state_received(cluster: SettledCluster) -> None:
    del cluster.broker(TWO).metadata.states[HERE]


def _no_broker(cluster: SettledCluster) -> None:
    cluster.brokers = 4


def _no_replica(cluster: SettledCluster) -> None:
    del cluster.broker(TWO).core.partitions[HERE]


def _follows_another_leader(cluster: SettledCluster) -> None:
    cluster.partition(TWO).leader = TWO


def _follows_in_another_epoch(cluster: SettledCluster) -> None:
    cluster.partition(TWO).leader_epoch = LeaderEpoch(0)


def _other_replicas(cluster: SettledCluster) -> None:
    cluster.partition(TWO).assignment = held(2, 1)


def _no_leader(cluster: SettledCluster) -> None:
    cluster.partition(ONE).role = FollowerRole(ONE, LeaderEpoch(1))


def _requests_another_isr(cluster: SettledCluster) -> None:
    cluster.role().isr.ask((ONE,), {})


def _has_another_version(cluster: SettledCluster) -> None:
    cluster.role().isr = Isr(STATE.isr, Version(5))


def _leads_instead_of_following(cluster: SettledCluster) -> None:
    cluster.partition(TWO).role = cluster.role()


def _no_role(cluster: SettledCluster) -> None:
    cluster.partition(TWO).role = None


def _held_by_another_broker(cluster: SettledCluster) -> None:
    cluster.broker(THREE).core.partitions[HERE] = cluster.partition(TWO)
    cluster.scenario.check(THREE)


def _stopped_at_another_broker(cluster: SettledCluster) -> None:
    _held_by_another_broker(cluster)
    cluster.broker(THREE).core.partitions[HERE] = evolve(cluster.partition(TWO), role=None)


def _holds_a_deleted_topic(cluster: SettledCluster) -> None:
    cluster.data.pop(znodes.state_path(HERE))
    cluster.data.pop(znodes.topic_path("t1"))


def _holds_a_reassigned_partition(cluster: SettledCluster) -> None:
    """Reassign the partition to broker 1 alone; broker 2 still follows."""
    state = evolve(STATE, isr=(ONE,), version=Version(7))
    cluster.data[znodes.topic_path("t1")] = znodes.topic(TopicId("1" * 22), {0: held(1)})
    cluster.write_state(state)
    cluster.partition(ONE).assignment = held(1)
    cluster.role().isr = Isr((ONE,), Version(7))
    for broker in (ONE, TWO, THREE):
        cluster.broker(broker).metadata.states[HERE] = state


def _no_reply_to_a_producer(cluster: SettledCluster) -> None:
    cluster.scenario.world.workload.producers[2, HERE, "all"].settled = False


def _no_reply_for_a_deleted_topic(cluster: SettledCluster) -> None:
    _no_reply_to_a_producer(cluster)
    cluster.scenario.delete_state()


def _no_reply_for_an_unknown_topic(cluster: SettledCluster) -> None:
    cluster.scenario.world.workload.producers[2, ELSEWHERE, "all"] = Producer(ELSEWHERE, settled=False)


def _no_reply_to_a_commit(cluster: SettledCluster) -> None:
    """Leave a commit without its reply; there is no offsets topic."""
    cluster.scenario.world.workload.committers[2, 1, "alone"] = Committer(2, "alone-1")


def _no_reply_to_a_commit_with_an_offsets_topic(cluster: SettledCluster) -> None:
    _no_reply_to_a_commit(cluster)
    cluster.scenario.store.topic_of({0: held(1, 2)}, name=POSITIONS.topic, ident="9")
    cluster.scenario.store.write(znodes.state_path(POSITIONS), znodes.partition_state(STATE), ADMIN)


def _has_less(cluster: SettledCluster) -> None:
    cluster.scenario.world.checkers.replicas.copies[2][HERE].records.pop()


def _has_more(cluster: SettledCluster) -> None:
    cluster.scenario.has(TWO, "a1 b1 c1 d1")


def _all_have_more(cluster: SettledCluster) -> None:
    cluster.scenario.has(TWO, "a1 b1 c1 d1")
    cluster.scenario.has(ONE, "a1 b1 c1 d1")


def _has_another_record(cluster: SettledCluster) -> None:
    records = cluster.scenario.world.checkers.replicas.copies[2][HERE].records
    records[1] = records[2]


def _has_a_lower_high_watermark(cluster: SettledCluster) -> None:
    cluster.partition(TWO).high_watermark = 2


def _stopped_and_behind(cluster: SettledCluster) -> None:
    _no_role(cluster)
    _has_less(cluster)


def _behind(offset: int) -> Corrupt:
    def corrupt(cluster: SettledCluster) -> None:
        cluster.scenario.world.workload.consumers[2, HERE] = Consumer(2, HERE, offset)

    return corrupt


def _behind_in_a_deleted_topic(cluster: SettledCluster) -> None:
    _behind(2)(cluster)
    cluster.scenario.delete_state()


def _behind_in_an_unknown_topic(cluster: SettledCluster) -> None:
    cluster.scenario.world.workload.consumers[2, ELSEWHERE] = Consumer(2, ELSEWHERE, 0)


CORRUPTIONS: Final[dict[str, Corrupt]] = {
    "unchanged": lambda cluster: None,
    "a broker never registered": _no_broker,
    "a broker received another leader": _received(THREE, evolve(STATE, leader=TWO)),
    "a broker received another leader epoch": _received(THREE, evolve(STATE, leader_epoch=LeaderEpoch(2))),
    "a broker received another ISR": _received(THREE, evolve(STATE, isr=(ONE,))),
    "a broker received another version": _received(THREE, evolve(STATE, version=Version(1))),
    "a broker received no state": _no_state_received,
    "a replica is missing": _no_replica,
    "a follower has another leader": _follows_another_leader,
    "a follower has another leader epoch": _follows_in_another_epoch,
    "a broker has another assignment": _other_replicas,
    "the leader follows": _no_leader,
    "the leader requests another ISR": _requests_another_isr,
    "the leader has another version": _has_another_version,
    "the follower leads": _leads_instead_of_following,
    "the follower has no role": _no_role,
    "another broker has a replica": _held_by_another_broker,
    "another broker has a stopped replica": _stopped_at_another_broker,
    "a replica of a deleted topic remains": _holds_a_deleted_topic,
    "a replica remains after a reassignment": _holds_a_reassigned_partition,
    "a producer has no reply": _no_reply_to_a_producer,
    "a producer of a deleted topic has no reply": _no_reply_for_a_deleted_topic,
    "a producer of an unknown topic has no reply": _no_reply_for_an_unknown_topic,
    "a commit has no reply": _no_reply_to_a_commit_with_an_offsets_topic,
    "a commit without an offsets topic has no reply": _no_reply_to_a_commit,
    "a follower has fewer records": _has_less,
    "a follower has more records": _has_more,
    "a follower has an earlier log start": lambda cluster: cluster.scenario.has(ONE, "b1 c1", start=1, hw=3),
    "all replicas have uncommitted records": _all_have_more,
    "a follower has another record": _has_another_record,
    "a follower has a lower high watermark": _has_a_lower_high_watermark,
    "a stopped replica has fewer records": _stopped_and_behind,
    "a consumer is behind": _behind(2),
    "a consumer is ahead": _behind(4),
    "a consumer of a deleted topic is behind": _behind_in_a_deleted_topic,
    "a consumer of an unknown topic is behind": _behind_in_an_unknown_topic,
}

LEGAL: Final = frozenset(
    {
        "unchanged",
        "a broker received another version",
        "another broker has a stopped replica",
        "a producer of a deleted topic has no reply",
        "a producer of an unknown topic has no reply",
        "a commit without an offsets topic has no reply",
        "a consumer is ahead",
        "a consumer of a deleted topic is behind",
        "a consumer of an unknown topic is behind",
    }
)


def actions() -> Iterator[tuple[str, Callable[[], object]]]:
    for name, corrupt in CORRUPTIONS.items():
        yield name, _result_of(corrupt)


def _result_of(corrupt: Corrupt) -> Callable[[], object]:
    def result() -> object:
        cluster = SettledCluster()
        corrupt(cluster)
        return cluster.result()

    return result
