"""A cluster in which every procedure has ended, and changes that leave one open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from attrs import define, evolve, field

from harness.checkers.controller.settled import apart, unfinished
from harness.worlds.controller.replicas import Replicas
from kraft_controller.core.commands import Role
from kraft_controller.core.names import NO_LEADER, BrokerId, LeaderEpoch, TopicId, TopicPartition, Version
from kraft_controller.core.state import Assignment, PartitionState
from kraft_controller.wire import znodes
from tests.histories.controller.scenario import held

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
IDENT: Final = TopicId("a" * 22)
FIRST, SECOND = TopicPartition("t1", 0), TopicPartition("t1", 1)
ELSEWHERE: Final = TopicPartition("t2", 0)


@define
class Cluster:
    """Three brokers, and a topic with two partitions: one led by 1 with follower 2, one led by 2 with follower 3."""

    data: dict[str, bytes | None] = field(factory=dict)
    versions: dict[str, int] = field(factory=dict)
    replicas: dict[BrokerId, Replicas] = field(factory=dict)
    brokers: int = 3

    def assigned(self, *partitions: Assignment) -> None:
        self.data[znodes.topic_path("t1")] = znodes.topic(IDENT, dict(enumerate(partitions)))

    def stated(self, where: TopicPartition, state: PartitionState) -> None:
        self.data[znodes.state_path(where)] = znodes.partition_state(state)
        self.versions[znodes.state_path(where)] = state.version

    def sets_role(self, broker: BrokerId, role: Role) -> None:
        self.replicas[broker].roles[role.where] = role
        self.replicas[broker].disk[role.where] = IDENT

    def result(self) -> object:
        return unfinished(self.data), apart(self.data, self.versions, self.replicas, self.brokers)


def _state(leader: BrokerId, *isr: BrokerId) -> PartitionState:
    return PartitionState(leader, isr, LeaderEpoch(4), version=Version(6))


ROLES: Final = {
    where: Role(where, IDENT, _state(BrokerId(replicas[0]), *map(BrokerId, replicas)), held(*replicas))
    for where, replicas in ((FIRST, (1, 2)), (SECOND, (2, 3)))
}


def cluster() -> Cluster:
    made = Cluster()
    made.data[znodes.CONTROLLER] = znodes.controller(ONE, 0)
    made.data[znodes.BROKERS] = None
    made.assigned(*(role.assignment for role in ROLES.values()))
    for broker in (ONE, TWO, THREE):
        made.data[znodes.broker_path(broker)] = b""
        made.replicas[broker] = Replicas(broker)
        made.replicas[broker].metadata = {where: role.state for where, role in ROLES.items()}
    for where, role in ROLES.items():
        made.stated(where, role.state)
        for broker in role.assignment.replicas:
            made.sets_role(broker, role)
    return made


Change = Callable[[Cluster], None]


def _state_of(leader: BrokerId, *isr: BrokerId) -> Change:
    return lambda cluster: cluster.stated(FIRST, _state(leader, *isr))


def _role_of(broker: BrokerId, role: Role) -> Change:
    return lambda cluster: cluster.sets_role(broker, role)


def _role_with(broker: BrokerId, state: PartitionState) -> Change:
    return _role_of(broker, evolve(ROLES[FIRST], state=state))


def _metadata_with(broker: BrokerId, state: PartitionState) -> Change:
    return lambda cluster: cluster.replicas[broker].metadata.update({FIRST: state})


def _remaining(path: str) -> Change:
    return lambda cluster: cluster.data.update({path: b"left"})


def _without(path: str) -> Change:
    def change(cluster: Cluster) -> None:
        del cluster.data[path]

    return change


def _reassignment(cluster: Cluster) -> None:
    cluster.assigned(held(1, 2, adding=[2]), held(2, 3))


def _role_missing(cluster: Cluster) -> None:
    del cluster.replicas[TWO].roles[FIRST]
    del cluster.replicas[TWO].disk[FIRST]


def _metadata_missing(cluster: Cluster) -> None:
    del cluster.replicas[THREE].metadata[FIRST]


def _still_on_disk(cluster: Cluster) -> None:
    cluster.replicas[THREE].disk[FIRST] = IDENT


def _foreign_role(cluster: Cluster) -> None:
    cluster.replicas[THREE].roles[FIRST] = ROLES[FIRST]


def _deleted_topic_on_disk(cluster: Cluster) -> None:
    cluster.replicas[THREE].disk[ELSEWHERE] = IDENT


def _deleted_topic_in_metadata(cluster: Cluster) -> None:
    cluster.replicas[THREE].metadata[ELSEWHERE] = ROLES[FIRST].state


def _stopped(cluster: Cluster) -> None:
    cluster.replicas[TWO].stopped.add(FIRST)


def _no_broker(cluster: Cluster) -> None:
    del cluster.replicas[THREE]


def _more_brokers(cluster: Cluster) -> None:
    cluster.brokers = 4


UNSETTLED: Final[dict[str, Change]] = {
    "no change": lambda cluster: None,
    "a reassignment is requested": _remaining(znodes.REASSIGN),
    "an election is requested": _remaining(znodes.PREFERRED),
    "a deletion is requested": _remaining(znodes.DELETE_TOPICS + "/t1"),
    "an ISR notification remains": _remaining(znodes.ISR_CHANGES + "/isr_change_1"),
    "a log directory event remains": _remaining(znodes.LOG_DIR_EVENTS + "/log_dir_event_1"),
    "a reassignment is not finished": _reassignment,
    "a state is missing": _without(znodes.state_path(SECOND)),
    "a partition has no leader": _state_of(NO_LEADER, ONE, TWO),
    "a replica is not in sync": _state_of(ONE, ONE),
    "a broker without a replica is in sync": _state_of(ONE, ONE, TWO, THREE),
    "no broker is the controller": _without(znodes.CONTROLLER),
    "the last broker is not registered": _without(znodes.broker_path(THREE)),
    "the first broker is not registered": _without(znodes.broker_path(ONE)),
    "the last broker has no state": _no_broker,
    "a broker was never registered": _more_brokers,
    "a broker lacks the role of a replica": _role_missing,
    "a broker lacks the metadata of a partition": _metadata_missing,
    "metadata has another leader": _metadata_with(THREE, evolve(ROLES[FIRST].state, leader=TWO)),
    "metadata has another leader epoch": _metadata_with(THREE, evolve(ROLES[FIRST].state, leader_epoch=LeaderEpoch(5))),
    "metadata has another ISR": _metadata_with(THREE, evolve(ROLES[FIRST].state, isr=(ONE,))),
    "metadata has another version": _metadata_with(THREE, evolve(ROLES[FIRST].state, version=Version(1))),
    "a role has another leader": _role_with(TWO, evolve(ROLES[FIRST].state, leader=TWO)),
    "a role has another leader epoch": _role_of(
        TWO, evolve(ROLES[FIRST], state=evolve(ROLES[FIRST].state, leader_epoch=LeaderEpoch(3)))
    ),
    "a role has other replicas": _role_of(TWO, evolve(ROLES[FIRST], assignment=held(2, 1))),
    "a replica is stopped": _stopped,
    "a leader has another version": _role_of(
        ONE, evolve(ROLES[FIRST], state=evolve(ROLES[FIRST].state, version=Version(5)))
    ),
    "a follower has another version": _role_of(
        TWO, evolve(ROLES[FIRST], state=evolve(ROLES[FIRST].state, version=Version(5)))
    ),
    "a foreign replica is on a disk": _still_on_disk,
    "a broker without the replica has a role": _foreign_role,
    "a deleted topic is on a disk": _deleted_topic_on_disk,
    "a deleted topic has metadata": _deleted_topic_in_metadata,
}
"""The changes by name. Followers need not have the version, and metadata has none."""


def actions() -> Iterator[tuple[str, Callable[[], object]]]:
    for name, change in UNSETTLED.items():
        yield name, _action(change)


def _action(change: Change) -> Callable[[], object]:
    def action() -> object:
        made = cluster()
        change(made)
        return made.result()

    return action
