"""Brokers that have come to rest, and all the ways in which one of them has not."""

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
from tests.histories.partitions.story import (
    ELSEWHERE,
    HERE,
    ONE,
    THREE,
    TWO,
    Committer,
    Consumer,
    Member,
    Producer,
    Tale,
)

if TYPE_CHECKING:
    from harness.worlds.cores.partitions.broker import PartitionBroker
    from harness.worlds.cores.partitions.world import PartitionsWorld

POSITIONS: Final = TopicPartition(OFFSETS_TOPIC, 0)
STATE: Final = PartitionState(ONE, (ONE, TWO), LeaderEpoch(1), version=Version(6))


@define
class Rest:
    """Partition t1-0 is led by 1 and held by 2; and 3 has nothing to do with it. Three records, one producer each way,
    and two consumers."""

    tale: Tale = field(factory=Tale)
    data: dict[str, bytes | None] = field(factory=dict)
    versions: dict[str, int] = field(factory=dict)
    brokers: int = 3

    def __attrs_post_init__(self) -> None:
        tale = self.tale
        tale.topic(1, 2)
        tale.state(1, [1, 2], 1)
        tale.follows(TWO, ONE, 1)
        tale.has(TWO, "a1 b1 c1")
        tale.leads(ONE, 1, STATE.isr)
        self.role().isr = Isr(STATE.isr, STATE.version)
        tale.has(ONE, "a1 b1 c1", hw=3)
        tale.knows(TWO, 3)
        self.data[znodes.CONTROLLER] = znodes.controller(ONE, 0)
        self.data[znodes.topic_path("t1")] = znodes.topic(TopicId("1" * 22), {0: held(1, 2)})
        self.stated(STATE)
        for broker in (ONE, TWO, THREE):
            self.data[znodes.broker_path(broker)] = b""
            self.member(broker).metadata.states[HERE] = STATE
        for broker in (ONE, TWO):
            tale.partition(broker).assignment = held(1, 2)
        workload = tale.world.workload
        workload.producers = {(each, HERE, "all"): Producer(HERE) for each in (1, 2)}
        workload.consumers = {(each, HERE): Consumer(each, HERE, 3) for each in (1, 2)}

    def stated(self, state: PartitionState) -> None:
        self.data[znodes.state_path(HERE)] = znodes.partition_state(state)
        self.versions[znodes.state_path(HERE)] = state.version

    def member(self, broker: BrokerId) -> Member:
        return self.tale.member(broker)

    def partition(self, broker: BrokerId) -> Partition:
        return self.tale.partition(broker)

    def role(self) -> LeaderRole:
        role = self.tale.partition(ONE).role
        assert isinstance(role, LeaderRole)
        return role

    def said(self) -> tuple[str | None, str | None]:
        brokers = cast("dict[BrokerId, PartitionBroker]", self.tale.world.brokers)
        world = cast("PartitionsWorld", self.tale.world)
        return apart(self.data, self.versions, brokers, self.brokers), unequal(world.keeper)


Spoil: TypeAlias = Callable[[Rest], None]


def _told(broker: BrokerId, state: PartitionState) -> Spoil:
    return lambda rest: rest.member(broker).metadata.states.update({HERE: state})


def _nothing_told(rest: Rest) -> None:
    del rest.member(TWO).metadata.states[HERE]


def _no_broker(rest: Rest) -> None:
    rest.brokers = 4


def _not_held(rest: Rest) -> None:
    del rest.member(TWO).core.partitions[HERE]


def _another_leader(rest: Rest) -> None:
    rest.partition(TWO).leader = TWO


def _another_epoch(rest: Rest) -> None:
    rest.partition(TWO).leader_epoch = LeaderEpoch(0)


def _other_replicas(rest: Rest) -> None:
    rest.partition(TWO).assignment = held(2, 1)


def _no_leader(rest: Rest) -> None:
    rest.partition(ONE).role = FollowerRole(ONE, LeaderEpoch(1))


def _asks_for_more(rest: Rest) -> None:
    rest.role().isr.ask((ONE,), {})


def _another_version(rest: Rest) -> None:
    rest.role().isr = Isr(STATE.isr, Version(5))


def _no_follower(rest: Rest) -> None:
    rest.partition(TWO).role = rest.role()


def _no_role(rest: Rest) -> None:
    rest.partition(TWO).role = None


def _held_by_another(rest: Rest) -> None:
    rest.member(THREE).core.partitions[HERE] = rest.partition(TWO)
    rest.tale.looks(THREE)


def _stopped_at_another(rest: Rest) -> None:
    _held_by_another(rest)
    rest.member(THREE).core.partitions[HERE] = evolve(rest.partition(TWO), role=None)


def _of_a_topic_that_is_gone(rest: Rest) -> None:
    rest.data.pop(znodes.state_path(HERE))
    rest.data.pop(znodes.topic_path("t1"))


def _moved(rest: Rest) -> None:
    """To broker 1 alone, which 2 has not heard."""
    state = evolve(STATE, isr=(ONE,), version=Version(7))
    rest.data[znodes.topic_path("t1")] = znodes.topic(TopicId("1" * 22), {0: held(1)})
    rest.stated(state)
    rest.partition(ONE).assignment = held(1)
    rest.role().isr = Isr((ONE,), Version(7))
    for broker in (ONE, TWO, THREE):
        rest.member(broker).metadata.states[HERE] = state


def _not_told(rest: Rest) -> None:
    rest.tale.world.workload.producers[2, HERE, "all"].settled = False


def _not_told_of_what_is_gone(rest: Rest) -> None:
    _not_told(rest)
    rest.tale.stateless()


def _not_told_of_what_never_was(rest: Rest) -> None:
    rest.tale.world.workload.producers[2, ELSEWHERE, "all"] = Producer(ELSEWHERE, settled=False)


def _not_told_of_a_position(rest: Rest) -> None:
    """Where no topic of positions is."""
    rest.tale.world.workload.committers[2, 1, "alone"] = Committer(2, "alone-1")


def _not_told_of_a_position_that_counts(rest: Rest) -> None:
    _not_told_of_a_position(rest)
    rest.tale.store.topic_of({0: held(1, 2)}, name=POSITIONS.topic, ident="9")
    rest.tale.store.write(znodes.state_path(POSITIONS), znodes.partition_state(STATE), ADMIN)


def _has_less(rest: Rest) -> None:
    rest.tale.world.keeper.replicas.copies[2][HERE].records.pop()


def _has_more(rest: Rest) -> None:
    rest.tale.has(TWO, "a1 b1 c1 d1")


def _all_have_more(rest: Rest) -> None:
    rest.tale.has(TWO, "a1 b1 c1 d1")
    rest.tale.has(ONE, "a1 b1 c1 d1")


def _has_something_else(rest: Rest) -> None:
    records = rest.tale.world.keeper.replicas.copies[2][HERE].records
    records[1] = records[2]


def _knows_less(rest: Rest) -> None:
    rest.partition(TWO).high_watermark = 2


def _stopped_and_behind(rest: Rest) -> None:
    _no_role(rest)
    _has_less(rest)


def _behind(offset: int) -> Spoil:
    def spoil(rest: Rest) -> None:
        rest.tale.world.workload.consumers[2, HERE] = Consumer(2, HERE, offset)

    return spoil


def _behind_in_what_is_gone(rest: Rest) -> None:
    _behind(2)(rest)
    rest.tale.stateless()


def _behind_in_what_never_was(rest: Rest) -> None:
    rest.tale.world.workload.consumers[2, ELSEWHERE] = Consumer(2, ELSEWHERE, 0)


SPOILT: Final[dict[str, Spoil]] = {
    "nothing": lambda rest: None,
    "a broker was never there": _no_broker,
    "another leader is told": _told(THREE, evolve(STATE, leader=TWO)),
    "another leader epoch is told": _told(THREE, evolve(STATE, leader_epoch=LeaderEpoch(2))),
    "another ISR is told": _told(THREE, evolve(STATE, isr=(ONE,))),
    "another version is told": _told(THREE, evolve(STATE, version=Version(1))),
    "nothing is told": _nothing_told,
    "it is not held": _not_held,
    "another leader is followed": _another_leader,
    "a leader of another epoch is followed": _another_epoch,
    "other replicas are known": _other_replicas,
    "who should lead follows": _no_leader,
    "a leader asks for another ISR": _asks_for_more,
    "a leader knows another version": _another_version,
    "who should follow leads": _no_follower,
    "who should follow does nothing": _no_role,
    "somebody else holds it": _held_by_another,
    "somebody else has held it": _stopped_at_another,
    "a topic that is gone is held": _of_a_topic_that_is_gone,
    "what has moved is held": _moved,
    "a producer is not told": _not_told,
    "a producer is not told of what is gone": _not_told_of_what_is_gone,
    "a producer is not told of what never was": _not_told_of_what_never_was,
    "who commits is not told": _not_told_of_a_position_that_counts,
    "who commits is not told where positions are not kept": _not_told_of_a_position,
    "a follower has less": _has_less,
    "a follower has more": _has_more,
    "a follower begins before its leader": lambda rest: rest.tale.has(ONE, "b1 c1", start=1, hw=3),
    "all have more": _all_have_more,
    "a follower has something else": _has_something_else,
    "a follower knows less to be committed": _knows_less,
    "who does nothing has less": _stopped_and_behind,
    "a consumer is behind": _behind(2),
    "a consumer is ahead": _behind(4),
    "a consumer is behind in what is gone": _behind_in_what_is_gone,
    "a consumer is behind in what never was": _behind_in_what_never_was,
}

HARMLESS: Final = frozenset(
    {
        "nothing",
        "another version is told",
        "somebody else has held it",
        "a producer is not told of what is gone",
        "a producer is not told of what never was",
        "who commits is not told where positions are not kept",
        "a consumer is ahead",
        "a consumer is behind in what is gone",
        "a consumer is behind in what never was",
    }
)


def actions() -> Iterator[tuple[str, Callable[[], object]]]:
    for name, spoil in SPOILT.items():
        yield name, _asked(spoil)


def _asked(spoil: Spoil) -> Callable[[], object]:
    def ask() -> object:
        rest = Rest()
        spoil(rest)
        return rest.said()

    return ask
