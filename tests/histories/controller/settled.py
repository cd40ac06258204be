"""A cluster in which everything has come to its end, and all the ways in which one thing has not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from attrs import define, evolve, field

from harness.checkers.controller.settled import apart, unfinished
from harness.worlds.controller.replicas import Replicas
from kraft_controller.core.commands import Role
from kraft_controller.core.names import NOBODY, BrokerId, LeaderEpoch, TopicId, TopicPartition, Version
from kraft_controller.core.state import Assignment, PartitionState
from kraft_controller.wire import znodes
from tests.histories.controller.scenario import held

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
IDENT: Final = TopicId("a" * 22)
FIRST, SECOND = TopicPartition("t1", 0), TopicPartition("t1", 1)
ELSEWHERE: Final = TopicPartition("t2", 0)


@define
class Cluster:
    """Three brokers, and a topic of two partitions: led by 1 and held by 2, led by 2 and held by 3."""

    data: dict[str, bytes | None] = field(factory=dict)
    versions: dict[str, int] = field(factory=dict)
    replicas: dict[BrokerId, Replicas] = field(factory=dict)
    brokers: int = 3

    def assigned(self, *partitions: Assignment) -> None:
        self.data[znodes.topic_path("t1")] = znodes.topic(IDENT, dict(enumerate(partitions)))

    def stated(self, where: TopicPartition, state: PartitionState) -> None:
        self.data[znodes.state_path(where)] = znodes.partition_state(state)
        self.versions[znodes.state_path(where)] = state.version

    def knows(self, broker: BrokerId, role: Role) -> None:
        self.replicas[broker].roles[role.where] = role
        self.replicas[broker].disk[role.where] = IDENT

    def result_of(self) -> object:
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
            made.knows(broker, role)
    return made


Change = Callable[[Cluster], None]


def _state_of(leader: BrokerId, *isr: BrokerId) -> Change:
    return lambda cluster: cluster.stated(FIRST, _state(leader, *isr))


def _role_of(broker: BrokerId, role: Role) -> Change:
    return lambda cluster: cluster.knows(broker, role)


def _believed(broker: BrokerId, state: PartitionState) -> Change:
    return _role_of(broker, evolve(ROLES[FIRST], state=state))


def _told(broker: BrokerId, state: PartitionState) -> Change:
    return lambda cluster: cluster.replicas[broker].metadata.update({FIRST: state})


def _left(path: str) -> Change:
    return lambda cluster: cluster.data.update({path: b"left"})


def _without(path: str) -> Change:
    def change(cluster: Cluster) -> None:
        del cluster.data[path]

    return change


def _another_move(cluster: Cluster) -> None:
    cluster.assigned(held(1, 2, adding=[2]), held(2, 3))


def _forgotten(cluster: Cluster) -> None:
    del cluster.replicas[TWO].roles[FIRST]
    del cluster.replicas[TWO].disk[FIRST]


def _unknown(cluster: Cluster) -> None:
    del cluster.replicas[THREE].metadata[FIRST]


def _still_on_disk(cluster: Cluster) -> None:
    cluster.replicas[THREE].disk[FIRST] = IDENT


def _still_held(cluster: Cluster) -> None:
    cluster.replicas[THREE].roles[FIRST] = ROLES[FIRST]


def _of_a_topic_that_is_gone(cluster: Cluster) -> None:
    cluster.replicas[THREE].disk[ELSEWHERE] = IDENT


def _known_though_gone(cluster: Cluster) -> None:
    cluster.replicas[THREE].metadata[ELSEWHERE] = ROLES[FIRST].state


def _stopped(cluster: Cluster) -> None:
    cluster.replicas[TWO].stopped.add(FIRST)


def _no_broker(cluster: Cluster) -> None:
    del cluster.replicas[THREE]


def _more_brokers(cluster: Cluster) -> None:
    cluster.brokers = 4


UNSETTLED: Final[dict[str, Change]] = {
    "nothing": lambda cluster: None,
    "a move is asked for": _left(znodes.REASSIGN),
    "an election is asked for": _left(znodes.PREFERRED),
    "a deletion is asked for": _left(znodes.DELETE_TOPICS + "/t1"),
    "an ISR is not heard of": _left(znodes.ISR_CHANGES + "/isr_change_1"),
    "a broken directory is not heard of": _left(znodes.LOG_DIR_EVENTS + "/log_dir_event_1"),
    "a move is not over": _another_move,
    "a state is not there": _without(znodes.state_path(SECOND)),
    "nobody leads": _state_of(NOBODY, ONE, TWO),
    "not all are in sync": _state_of(ONE, ONE),
    "somebody else is in sync": _state_of(ONE, ONE, TWO, THREE),
    "nobody is the controller": _without(znodes.CONTROLLER),
    "the last broker is not registered": _without(znodes.broker_path(THREE)),
    "the first broker is not registered": _without(znodes.broker_path(ONE)),
    "the last broker is not there": _no_broker,
    "a broker was never there": _more_brokers,
    "a replica is not known to its broker": _forgotten,
    "a partition is not known to a broker": _unknown,
    "another leader is case": _told(THREE, evolve(ROLES[FIRST].state, leader=TWO)),
    "another leader epoch is case": _told(THREE, evolve(ROLES[FIRST].state, leader_epoch=LeaderEpoch(5))),
    "another ISR is case": _told(THREE, evolve(ROLES[FIRST].state, isr=(ONE,))),
    "another version is case": _told(THREE, evolve(ROLES[FIRST].state, version=Version(1))),
    "another leader is believed": _believed(TWO, evolve(ROLES[FIRST].state, leader=TWO)),
    "another leader epoch is believed": _role_of(
        TWO, evolve(ROLES[FIRST], state=evolve(ROLES[FIRST].state, leader_epoch=LeaderEpoch(3)))
    ),
    "other replicas are believed": _role_of(TWO, evolve(ROLES[FIRST], assignment=held(2, 1))),
    "it was stopped": _stopped,
    "a leader knows another version": _role_of(
        ONE, evolve(ROLES[FIRST], state=evolve(ROLES[FIRST].state, version=Version(5)))
    ),
    "a follower knows another version": _role_of(
        TWO, evolve(ROLES[FIRST], state=evolve(ROLES[FIRST].state, version=Version(5)))
    ),
    "it is still on a disk": _still_on_disk,
    "somebody still has a role": _still_held,
    "a topic that is gone is still on a disk": _of_a_topic_that_is_gone,
    "a topic that is gone is still known": _known_though_gone,
}
"""What was left undone, or is not known. A follower need not know the version, nor anybody that of the metadata."""


def actions() -> Iterator[tuple[str, Callable[[], object]]]:
    for name, change in UNSETTLED.items():
        yield name, _asked(change)


def _asked(change: Change) -> Callable[[], object]:
    def ask() -> object:
        made = cluster()
        change(made)
        return made.result_of()

    return ask
