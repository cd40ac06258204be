"""What the controller does, told as stories. Topic t has partitions t-0 on 1,2,3, t-1 on 2,3,1 and t-2 on 3,1,2."""

from __future__ import annotations

import pytest
from attrs import evolve

from kraft_controller.core import deletion, members, moves, rebalance, topics
from kraft_controller.core.asks import Ask, Changed, DropMoves, MakeState, WriteState
from kraft_controller.core.commands import EPOCH_OF_DELETION, LeaderAndIsr, StopReplica, UpdateMetadata
from kraft_controller.core.desk import Settings
from kraft_controller.core.names import BrokerEpoch, BrokerId, ControllerEpoch, TopicPartition, Version
from kraft_controller.core.state import Assignment
from kraft_controller.core.transitions import PartitionPhase, ReplicaPhase
from tests.unit.kraft_controller.cluster import Controller, Store, broker

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


def ids(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(number) for number in numbers)


def three(settings: Settings | None = None) -> Controller:
    store = Store()
    store.topic("t", (1, 2, 3), (2, 3, 1), (3, 1, 2))
    controller = Controller(store, settings=settings).take_over()
    assert not controller.noted().count("illegal_transition")
    return controller


def registrations(store: Store) -> dict[BrokerId, BrokerEpoch]:
    return {known.id: known.epoch for known in store.brokers.values()}


def die(controller: Controller, *brokers: int) -> None:
    for number in brokers:
        del controller.store.brokers[BrokerId(number)]
    controller.heard()
    controller.run(members.brokers_changed(controller.desk, registrations(controller.store)))


def come(controller: Controller, number: int, epoch: int) -> None:
    controller.store.brokers[BrokerId(number)] = broker(number, epoch)
    controller.heard()
    controller.run(members.brokers_changed(controller.desk, registrations(controller.store)))


# -- beginnings ------------------------------------------------------------------------------------------


@pytest.mark.mechanism(1, 2, 37)
def test_new_partitions_are_led_by_their_first_replica_and_all_are_in_sync() -> None:
    controller = three()
    assert controller.leaders() == {"t-0": (1, (1, 2, 3)), "t-1": (2, (2, 3, 1)), "t-2": (3, (3, 1, 2))}
    roles = controller.roles()
    assert len(roles) == 9
    assert all(is_new for _, _, is_new in roles.values())
    assert set(controller.desk.cluster.phases.values()) == {PartitionPhase.ONLINE}
    assert set(controller.desk.cluster.replicas.values()) == {ReplicaPhase.ONLINE}


@pytest.mark.mechanism(56, 73, 80)
def test_each_broker_is_told_once_and_of_the_living_before_anything_else() -> None:
    said = three().heard()
    kinds = [(to, type(command)) for to, command in said]
    assert sorted(kinds, key=str) == sorted({(to, kind) for to, kind in kinds}, key=str)
    assert [len(c.brokers) for _, c in said if isinstance(c, UpdateMetadata)] == [3, 3, 3]
    assert all(c.full for _, c in said if isinstance(c, LeaderAndIsr))


@pytest.mark.mechanism(69)
def test_replicas_are_started_before_the_first_partition_is_decided() -> None:
    store = Store()
    store.topic("t", (1, 2, 3), (2, 3, 1))
    Controller(store).take_over()
    del store.brokers[BrokerId(1)]
    controller = Controller(store, epoch=2, me=2)
    started: list[dict[BrokerId, ReplicaPhase]] = []

    def look(ask: Ask) -> None:
        if isinstance(ask, WriteState):
            started.append({broker: phase for (where, broker), phase in controller.desk.cluster.replicas.items()})

    store.before = look
    controller.take_over()
    assert started
    assert all(phases[BrokerId(2)] is phases[BrokerId(3)] is ReplicaPhase.ONLINE for phases in started)
    assert all(phases[BrokerId(1)] is not ReplicaPhase.ONLINE for phases in started)


def test_a_partition_none_of_whose_brokers_lives_stays_new() -> None:
    store = Store(2)
    store.topic("t", (3,), (1, 2))
    controller = Controller(store).take_over()
    assert controller.leaders() == {"t-1": (1, (1, 2))}
    assert controller.desk.cluster.phase(T0) is PartitionPhase.NEW
    come(controller, 3, 9)
    assert controller.leaders()["t-0"] == (3, (3,))


@pytest.mark.mechanism(64)
def test_a_topic_that_appears_gets_its_id_and_its_leaders() -> None:
    controller = three()
    controller.store.topic("u", (2, 1), ident=None)
    controller.heard()
    controller.run(topics.topics_changed(controller.desk, controller.new_id))
    assert controller.store.topics["u"].id == "n" * 22
    assert controller.roles() == {(1, "u-0"): (2, (2, 1), True), (2, "u-0"): (2, (2, 1), True)}


@pytest.mark.mechanism(67)
def test_a_topic_that_grows() -> None:
    controller = three()
    held = controller.store.topics["t"]
    grown = {**held.partitions, 3: Assignment(ids(1, 3))}
    controller.store.topics["t"] = evolve(held, partitions=grown, version=Version(held.version + 1))
    controller.heard()
    controller.run(topics.topic_changed(controller.desk, "t", controller.new_id))
    assert set(controller.roles()) == {(1, "t-3"), (3, "t-3")}


def test_a_damaged_node_is_left_and_all_else_goes_on() -> None:
    store = Store()
    store.topic("t", (1, 2))
    store.topic("u", (2, 1))
    store.damaged["t"] = "/brokers/topics/t: no JSON"
    controller = Controller(store).take_over()
    assert controller.leaders() == {"u-0": (2, (2, 1))}
    assert "damaged" in controller.noted()


def test_the_dead_leave_the_isrs_of_a_topic_that_is_mended() -> None:
    """They died while it could not be read; so nobody has taken them out yet."""
    controller = three()
    store = controller.store
    store.damaged["t"] = "/brokers/topics/t: no JSON"
    after = Controller(store, epoch=2).take_over()
    die(after, 1)
    assert not after.desk.cluster.states
    del store.damaged["t"]
    after.run(topics.topic_changed(after.desk, "t", after.new_id))
    assert after.leaders() == {"t-0": (2, (2, 3)), "t-1": (2, (2, 3)), "t-2": (3, (3, 2))}


# -- brokers -------------------------------------------------------------------------------------------


@pytest.mark.mechanism(52, 53, 54, 77)
def test_a_broker_dies() -> None:
    """It is seen, the living are listed, what it held is found, leaders and ISRs are written, and all are told."""
    controller = three()
    die(controller, 1)
    assert controller.leaders() == {"t-0": (2, (2, 3)), "t-1": (2, (2, 3)), "t-2": (3, (3, 2))}
    assert controller.roles() == {
        (2, "t-0"): (2, (2, 3), False), (3, "t-0"): (2, (2, 3), False),
        (2, "t-1"): (2, (2, 3), False), (3, "t-1"): (2, (2, 3), False),
        (2, "t-2"): (3, (3, 2), False), (3, "t-2"): (3, (3, 2), False),
    }  # fmt: skip


def test_every_change_has_a_leader_epoch_of_its_own() -> None:
    controller = three()
    die(controller, 1)
    assert {where.partition: state.leader_epoch for where, state in controller.store.states.items()} == {
        0: 1,
        1: 1,
        2: 1,
    }


@pytest.mark.mechanism(40, 54)
def test_nobody_in_sync_is_left_and_the_last_one_stays_on_record() -> None:
    controller = three()
    die(controller, 2, 3)
    die(controller, 1)
    assert controller.leaders() == {"t-0": (-1, (1,)), "t-1": (-1, (1,)), "t-2": (-1, (1,))}
    come(controller, 2, 7)
    assert controller.leaders()["t-0"] == (-1, (1,))
    come(controller, 1, 8)
    assert controller.leaders()["t-0"] == (1, (1,))


@pytest.mark.mechanism(10, 40)
def test_nobody_in_sync_is_left_and_availability_counts() -> None:
    controller = three(Settings(unclean_election=True))
    die(controller, 2, 3)
    die(controller, 1)
    come(controller, 2, 7)
    assert controller.leaders()["t-0"] == (2, (2,))
    assert controller.desk.unclean_elections == 3
    assert "unclean_election" in controller.noted()


def test_a_topic_may_say_for_itself_whether_availability_counts() -> None:
    store = Store()
    store.topic("t", (1, 2, 3))
    store.configs["t"] = {"unclean.leader.election.enable": "false"}
    controller = Controller(store, settings=Settings(unclean_election=True)).take_over()
    assert controller.desk.cluster.unclean == set()


@pytest.mark.mechanism(51)
def test_a_broker_that_bounced_has_died_and_come_back() -> None:
    controller = three()
    come(controller, 1, 5)
    assert controller.leaders()["t-0"] == (2, (2, 3))
    said = controller.heard()
    to_it = [command for to, command in said if to == 1]
    assert {command.broker_epoch for command in to_it} == {5}
    assert {type(command) for command in to_it} >= {LeaderAndIsr, UpdateMetadata}


def test_who_was_started_again_between_two_controllers_has_died_and_come_back() -> None:
    """It registered after the last word on its partition, so it may have lost what it held. Nobody has seen it go."""
    store = Store()
    store.topic("t", (1, 2, 3), (2, 3, 1))
    Controller(store).take_over()
    for where, state in store.states.items():
        store.states[where] = evolve(state, written=40)
    store.brokers[BrokerId(1)] = broker(1, epoch=50)
    Controller(store, epoch=2).take_over()
    assert (store.states[T0].leader, store.states[T0].isr, store.states[T0].leader_epoch) == (2, (2, 3), 1)
    assert (store.states[T1].leader, store.states[T1].isr) == (2, (2, 3))


def test_the_only_one_in_sync_leads_on_in_another_epoch_when_it_was_started_again() -> None:
    store = Store()
    store.topic("t", (1,))
    Controller(store).take_over()
    store.states[T0] = evolve(store.states[T0], written=40)
    store.brokers[BrokerId(1)] = broker(1, epoch=50)
    controller = Controller(store, epoch=2).take_over()
    assert "no_leader" not in controller.noted()  # it was so for no time at all
    assert (store.states[T0].leader, store.states[T0].isr) == (1, (1,))
    assert store.states[T0].leader_epoch > 0


@pytest.mark.mechanism(85)
def test_a_leader_shrinks_its_isr_between_reading_and_writing() -> None:
    """The write is refused, the node is read, and the decision is taken again, on what is there now."""
    controller = three()
    store = controller.store

    def meanwhile(ask: Ask) -> None:
        if isinstance(ask, WriteState) and ask.where == T0 and store.states[T0].isr == (1, 2, 3):
            store.shrink(T0, 1, 3)

    store.before = meanwhile
    die(controller, 1)
    assert controller.leaders()["t-0"] == (3, (3,))


@pytest.mark.mechanism(84)
def test_a_newer_controller_has_decided_and_this_one_does_not() -> None:
    controller = three()
    where = T0
    state = controller.store.states[where]
    controller.store.states[where] = evolve(state, controller_epoch=ControllerEpoch(9), version=Version(5))
    die(controller, 1)
    assert controller.store.states[where].leader == 1
    assert "no_leader" in controller.noted()


def test_a_failed_disk_takes_its_replicas_and_no_others() -> None:
    controller = three()
    controller.heard()
    controller.run(members.replicas_failed(controller.desk, BrokerId(1), [T0]))
    assert controller.leaders() == {"t-0": (2, (2, 3)), "t-1": (2, (2, 3, 1)), "t-2": (3, (3, 1, 2))}


def test_a_broker_asks_to_be_let_go() -> None:
    controller = three()
    controller.heard()
    left = controller.run(members.controlled_shutdown(controller.desk, BrokerId(1)))
    assert left == ()
    assert controller.leaders() == {"t-0": (2, (2, 3)), "t-1": (2, (2, 3)), "t-2": (3, (3, 2))}
    assert (1, "t-1", False) in controller.stops()


def test_a_broker_that_nobody_can_replace_is_told_so() -> None:
    controller = three()
    controller.store.shrink(T0, 1)
    controller.desk.cluster.learn_state(T0, controller.store.states[T0])
    assert controller.run(members.controlled_shutdown(controller.desk, BrokerId(1))) == (T0,)


# -- moving --------------------------------------------------------------------------------------------


def caught_up(controller: Controller, where: TopicPartition, *isr: int) -> None:
    controller.store.shrink(where, *isr)
    controller.run(moves.go_on(controller.desk, where))


def six() -> Controller:
    store = Store(6)
    store.topic("t", (1, 2, 3))
    controller = Controller(store).take_over()
    controller.heard()
    return controller


def test_replicas_move() -> None:
    controller = six()
    assert controller.run(moves.start(controller.desk, {T0: ids(4, 5, 6)})) == {}
    assert controller.store.topics["t"].partitions[0] == Assignment(ids(4, 5, 6, 1, 2, 3), ids(4, 5, 6), ids(1, 2, 3))
    roles = controller.roles()
    assert {to: is_new for (to, _), (_, _, is_new) in roles.items()} == {
        1: False, 2: False, 3: False, 4: True, 5: True, 6: True,
    }  # fmt: skip
    caught_up(controller, T0, 1, 2, 3, 4)
    assert controller.store.topics["t"].partitions[0].moving
    caught_up(controller, T0, 1, 2, 3, 4, 5, 6)
    assert controller.store.topics["t"].partitions[0] == Assignment(ids(4, 5, 6))
    assert controller.leaders() == {"t-0": (4, (4, 5, 6))}
    assert controller.stops() == {(1, "t-0", True), (2, "t-0", True), (3, "t-0", True)}
    assert controller.desk.cluster.moving == {}


def test_a_move_only_ends_when_somebody_of_the_target_can_lead() -> None:
    controller = six()
    controller.run(moves.start(controller.desk, {T0: ids(4)}))
    controller.store.shrink(T0, 1, 4)
    del controller.desk.cluster.brokers[BrokerId(4)]
    controller.run(moves.go_on(controller.desk, T0))
    assert controller.store.topics["t"].partitions[0].moving
    assert T0 in controller.desk.cluster.moving


@pytest.mark.parametrize("target", [(4, 1), (4, 5)], ids=["who leads stays", "another is to lead"])
def test_a_move_does_not_end_without_somebody_who_has_just_left_the_isr(target: tuple[int, ...]) -> None:
    controller = six()
    store = controller.store
    controller.run(moves.start(controller.desk, {T0: ids(*target)}))
    store.shrink(T0, *dict.fromkeys((1, 2, 3, *target)))

    def leaves(ask: Ask) -> None:
        if isinstance(ask, WriteState):
            store.before = lambda _: None
            store.shrink(T0, 1, 2, 3)

    store.before = leaves
    controller.run(moves.go_on(controller.desk, T0))
    assert store.topics["t"].partitions[0].moving
    assert store.states[T0].isr == ids(1, 2, 3)
    assert T0 in controller.desk.cluster.moving
    caught_up(controller, T0, *dict.fromkeys((1, 2, 3, *target)))
    assert store.topics["t"].partitions[0] == Assignment(ids(*target))


@pytest.mark.parametrize("target", [(4, 1), (5, 4)], ids=["who leads stays", "another is to lead"])
def test_a_move_does_not_end_while_somebody_of_the_target_asks_to_be_let_go(target: tuple[int, ...]) -> None:
    controller = six()
    everybody = tuple(dict.fromkeys((1, 2, 3, *target)))
    controller.run(moves.start(controller.desk, {T0: ids(*target)}))
    controller.run(members.controlled_shutdown(controller.desk, BrokerId(4)))
    caught_up(controller, T0, *everybody)  # its leader has not heard of that yet
    assert controller.store.topics["t"].partitions[0].moving
    assert controller.stops() == {(4, "t-0", False)}
    die(controller, 4)
    come(controller, 4, 99)
    caught_up(controller, T0, *everybody)
    assert controller.store.topics["t"].partitions[0] == Assignment(ids(*target))


@pytest.mark.mechanism(71)
def test_a_new_controller_goes_on_with_a_move() -> None:
    controller = six()
    controller.run(moves.start(controller.desk, {T0: ids(4, 2)}))
    controller.store.shrink(T0, 1, 2, 3, 4)
    after = Controller(controller.store, epoch=2).take_over()
    assert controller.store.topics["t"].partitions[0] == Assignment(ids(4, 2))
    assert after.leaders() == {"t-0": (4, (4, 2))} or after.leaders() == {"t-0": (4, (2, 4))}


def test_a_move_is_cancelled() -> None:
    controller = six()
    controller.run(moves.start(controller.desk, {T0: ids(4, 5, 6)}))
    controller.heard()
    assert controller.run(moves.start(controller.desk, {T0: None})) == {}
    assert controller.store.topics["t"].partitions[0] == Assignment(ids(1, 2, 3))
    assert {(4, "t-0", True), (5, "t-0", True), (6, "t-0", True)} <= controller.stops()
    assert controller.run(moves.start(controller.desk, {T0: None})) == {
        T0: "nothing is on the move that could be cancelled"
    }


def test_what_is_wanted_since_stays_when_the_move_before_has_ended() -> None:
    controller = six()
    controller.store.moves = {T0: ids(4, 5)}
    controller.run(moves.requested(controller.desk))
    controller.store.moves = {T0: ids(6)}
    caught_up(controller, T0, 1, 2, 3, 4, 5)
    assert controller.store.topics["t"].partitions[0] == Assignment(ids(4, 5))
    assert controller.store.moves == {T0: ids(6)}
    controller.run(moves.requested(controller.desk))
    assert controller.store.topics["t"].partitions[0].adding == ids(6)
    caught_up(controller, T0, 4, 5, 6)
    assert controller.store.moves == {}


def test_moves_that_make_no_sense() -> None:
    controller = six()
    wanted = {T0: ids(9), TopicPartition("u", 0): ids(1), TopicPartition("t", 7): ids(1)}
    failed = controller.run(moves.start(controller.desk, wanted))
    assert failed == {
        T0: "brokers [9] are not alive, and would have to begin",
        TopicPartition("u", 0): "there is no such partition",
        TopicPartition("t", 7): "there is no such partition",
    }
    assert controller.run(moves.start(controller.desk, {T0: ids(1, 1)})).keys() == {T0}
    assert controller.run(moves.start(controller.desk, {T0: ()})).keys() == {T0}


def test_a_node_that_asks_for_no_move_goes() -> None:
    controller = six()
    controller.store.moves = {}
    controller.run(moves.requested(controller.desk))
    assert DropMoves(()) in controller.store.asked


@pytest.mark.mechanism(61)
def test_moves_that_people_left_in_the_node() -> None:
    controller = six()
    controller.store.moves = {T0: ids(4, 5), TopicPartition("gone", 0): ids(1)}
    controller.run(moves.requested(controller.desk))
    assert controller.store.moves == {T0: ids(4, 5)}
    caught_up(controller, T0, 1, 2, 3, 4, 5)
    assert controller.store.moves == {}
    assert "reassignment_refused" in controller.noted()


def test_others_write_into_the_topics_node_meanwhile() -> None:
    controller = six()
    store = controller.store

    def meanwhile(ask: Ask) -> None:
        if len(store.topics["t"].partitions) == 1:
            held = store.topics["t"]
            grown = {**held.partitions, 1: Assignment(ids(1))}
            store.topics["t"] = evolve(held, partitions=grown, version=Version(held.version + 1))

    store.before = meanwhile
    controller.run(moves.start(controller.desk, {T0: ids(4, 5, 6)}))
    assert set(store.topics["t"].partitions) == {0, 1}
    assert store.topics["t"].partitions[0].moving


# -- deleting ------------------------------------------------------------------------------------------


def delete(controller: Controller) -> None:
    controller.store.deletions.append("t")
    controller.heard()
    controller.run(deletion.requested(controller.desk))


def test_a_topic_is_deleted_when_all_have_said_that_it_is_gone() -> None:
    controller = three()
    delete(controller)
    said = controller.heard()
    metadata = [command for _, command in said if isinstance(command, UpdateMetadata)]
    assert {role.state.leader for command in metadata for role in command.roles} == {-2}
    stops = [stop for _, command in said if isinstance(command, StopReplica) for stop in command.stops]
    assert len(stops) == 9
    assert {(stop.delete, stop.leader_epoch) for stop in stops} == {(True, EPOCH_OF_DELETION)}
    for number in (1, 2):
        controller.run(deletion.answered(controller.desk, BrokerId(number), [T0, T1, T2], []))
        assert "t" in controller.store.topics
    controller.run(deletion.answered(controller.desk, BrokerId(3), [T0, T1, T2], []))
    assert (controller.store.topics, controller.store.states, controller.store.deletions) == ({}, {}, [])
    assert controller.desk.cluster.topics == {}
    assert "illegal_transition" not in controller.noted()


def test_a_deletion_waits_for_a_dead_broker() -> None:
    controller = three()
    die(controller, 3)
    delete(controller)
    assert controller.stops() == set()
    come(controller, 3, 8)
    assert len(controller.stops()) == 9
    for number in (1, 2, 3):
        controller.run(deletion.answered(controller.desk, BrokerId(number), [T0, T1, T2], []))
    assert controller.store.topics == {}
    assert "illegal_transition" not in controller.noted()


def test_a_broker_dies_in_the_middle_of_a_deletion() -> None:
    controller = three()
    delete(controller)
    for number in (1, 2):
        controller.run(deletion.answered(controller.desk, BrokerId(number), [T0, T1, T2], []))
    die(controller, 3)
    assert "t" in controller.store.topics
    come(controller, 3, 8)
    assert controller.stops() == {(3, f"t-{number}", True) for number in range(3)}
    controller.run(deletion.answered(controller.desk, BrokerId(3), [T0, T1, T2], []))
    assert controller.store.topics == {}
    assert "illegal_transition" not in controller.noted()


@pytest.mark.mechanism(75)
def test_the_controller_dies_in_the_middle_of_a_deletion() -> None:
    controller = three()
    delete(controller)
    controller.run(deletion.answered(controller.desk, BrokerId(1), [T0, T1, T2], []))
    after = Controller(controller.store, epoch=2).take_over()
    assert len(after.stops()) == 9
    for number in (1, 2, 3):
        after.run(deletion.answered(after.desk, BrokerId(number), [T0, T1, T2], []))
    assert after.store.topics == {}


def died_while_nodes_went() -> Controller:
    """All replicas are deleted, and the state of t-0 is, too; then the controller dies. Broker 3 is not there when the
    next one begins."""
    before = three()
    delete(before)
    del before.store.states[T0]
    del before.store.brokers[BrokerId(3)]
    after = Controller(before.store, epoch=2).take_over()
    assert after.desk.cluster.deletion_waits == {"t": "broker 3, which holds t-0, is not there"}
    return after


def assert_nothing_began(controller: Controller) -> None:
    """A leader of t-0 would be in the leader epoch in which there was one already, and its records others."""
    assert T0 not in controller.store.states
    assert "illegal_transition" not in controller.noted()


@pytest.mark.mechanism(75)
def test_what_is_half_deleted_does_not_begin_anew_when_its_broker_comes() -> None:
    after = died_while_nodes_went()
    come(after, 3, 8)
    assert_nothing_began(after)
    assert len(after.stops()) == 9
    for number in (1, 2, 3):
        after.run(deletion.answered(after.desk, BrokerId(number), [T0, T1, T2], []))
    assert (after.store.topics, after.store.states, after.store.deletions) == ({}, {}, [])


@pytest.mark.mechanism(75)
def test_what_is_half_deleted_does_not_begin_anew_when_another_broker_goes() -> None:
    after = died_while_nodes_went()
    left = dict(after.store.states)
    die(after, 1)
    assert_nothing_began(after)
    assert after.store.states == left


def test_what_is_half_deleted_does_not_begin_anew_when_it_grows() -> None:
    after = died_while_nodes_went()
    topic = after.store.topics["t"]
    more = {**topic.partitions, 3: Assignment(ids(1, 2))}
    after.store.topics["t"] = evolve(topic, partitions=more, version=Version(topic.version + 1))
    after.run(topics.topic_changed(after.desk, "t", after.new_id))
    assert_nothing_began(after)
    assert set(after.store.topics["t"].partitions) == {0, 1, 2}
    come(after, 3, 8)
    assert_nothing_began(after)


def test_a_topic_whose_nodes_did_not_all_go_is_deleted_on() -> None:
    controller = three()
    delete(controller)
    controller.store.keeps.add("t")
    for number in (1, 2, 3):
        controller.run(deletion.answered(controller.desk, BrokerId(number), [T0, T1, T2], []))
    assert controller.store.deletions == ["t"]
    assert controller.desk.cluster.is_deleting("t")
    assert controller.desk.cluster.deletion_waits == {"t": "somebody makes nodes below that of the topic"}
    controller.store.keeps.clear()
    controller.heard()
    controller.run(deletion.requested(controller.desk))
    assert len(controller.stops()) == 9
    for number in (1, 2, 3):
        controller.run(deletion.answered(controller.desk, BrokerId(number), [T0, T1, T2], []))
    assert (controller.store.topics, controller.store.deletions) == ({}, [])
    assert controller.desk.cluster.topics == {}


def test_a_disk_that_cannot_delete_holds_the_topic() -> None:
    controller = three()
    delete(controller)
    controller.run(deletion.answered(controller.desk, BrokerId(1), [T1, T2], [T0]))
    for number in (2, 3):
        controller.run(deletion.answered(controller.desk, BrokerId(number), [T0, T1, T2], []))
    assert "t" in controller.store.topics
    assert controller.desk.cluster.deletion_waits == {"t": "broker 1 could not delete t-0"}


def test_deletions_that_are_not_to_be() -> None:
    controller = three(Settings(deletion=False))
    controller.store.deletions.append("u")
    delete(controller)
    assert controller.store.deletions == []
    assert "t" in controller.store.topics


# -- elections on request --------------------------------------------------------------------------------


@pytest.mark.mechanism(63, 72)
def test_preferred_elections_that_people_left_in_the_node() -> None:
    controller = three()
    die(controller, 1)
    come(controller, 1, 5)
    controller.store.shrink(T0, 2, 3, 1)
    controller.desk.cluster.learn_state(T0, controller.store.states[T0])
    controller.store.preferred = (T0, T1, TopicPartition("u", 0))
    controller.run(rebalance.requested(controller.desk))
    assert controller.leaders()["t-0"] == (1, (2, 3, 1))
    assert not controller.store.preferred


def test_an_unclean_election_on_request_only_where_nobody_leads() -> None:
    controller = three()
    die(controller, 2, 3)
    die(controller, 1)
    come(controller, 3, 9)
    verdicts = controller.run(rebalance.elect(controller.desk, [T0], unclean=True))
    assert verdicts == {T0: rebalance.Verdict.ELECTED}
    assert controller.leaders()["t-0"] == (3, (3,))
    verdicts = controller.run(rebalance.elect(controller.desk, [T0], unclean=True))
    assert verdicts == {T0: rebalance.Verdict.NOT_NEEDED}


@pytest.mark.mechanism(74)
def test_balance_takes_only_what_its_preferred_leader_is_in_sync_with() -> None:
    controller = three()
    die(controller, 1)
    come(controller, 1, 5)
    elections = controller.desk.elections
    controller.run(rebalance.balance(controller.desk))
    assert controller.desk.elections == elections
    controller.store.shrink(T0, 2, 3, 1)
    controller.desk.cluster.learn_state(T0, controller.store.states[T0])
    controller.run(rebalance.balance(controller.desk))
    assert controller.leaders()["t-0"] == (1, (2, 3, 1))


# -- failover --------------------------------------------------------------------------------------------


@pytest.mark.mechanism(55)
def test_a_new_controller_decides_under_its_own_epoch() -> None:
    controller = three()
    del controller.store.brokers[BrokerId(1)]
    after = Controller(controller.store, epoch=2, me=2).take_over()
    assert after.leaders() == {"t-0": (2, (2, 3)), "t-1": (2, (2, 3)), "t-2": (3, (3, 2))}
    assert {state.controller_epoch for state in controller.store.states.values()} == {2}
    assert {command.controller_epoch for _, command in after.heard()} == {2}


@pytest.mark.mechanism(68, 78)
def test_taking_over_takes_few_rounds_however_many_partitions_there_are() -> None:
    rounds = []
    for size in (5, 50):
        store = Store()
        store.topic("t", *[(1, 2, 3)] * size)
        Controller(store).take_over()
        rounds.append(store.rounds)
    assert rounds[0] == rounds[1]
    assert len([ask for ask in store.asked if isinstance(ask, MakeState)]) == 50


def test_what_is_configured_for_the_controllers_own_broker_stands_before_what_is_for_all() -> None:
    store = Store()
    store.topic("t", (1, 2, 3))
    unclean = "unclean.leader.election.enable"
    store.configs["<default>"] = {unclean: "false", "min.insync.replicas": "2"}
    store.configs["1"] = {unclean: "true"}
    controller = Controller(store).take_over()
    assert controller.desk.cluster.unclean == {"t"}
    assert controller.desk.min_isr_by_default == 2
    store.configs["1"] = {}
    store.config_changes.append("brokers/2")
    controller.run(topics.configs_changed(controller.desk))
    assert controller.desk.cluster.unclean == {"t"}  # another broker's is its own matter
    store.config_changes.append("brokers/1")
    controller.run(topics.configs_changed(controller.desk))
    assert controller.desk.cluster.unclean == set()


def test_who_is_not_in_sync_and_dies_cannot_be_let_in_on_what_was_known_of_that_life() -> None:
    """A leader has asked for 3 in the ISR. Before it is written 3 has died, and is back with less than it had."""
    controller = three()
    store = controller.store
    seen = store.states[T0] = evolve(store.states[T0], isr=ids(1, 2), version=Version(7))
    controller.desk.cluster.learn_state(T0, seen)
    asked = WriteState(T0, evolve(seen, isr=ids(1, 2, 3)))
    controller.heard()
    come(controller, 3, 9)
    assert isinstance(store.answer([asked])[0], Changed)
    assert store.states[T0].isr == ids(1, 2)
    assert store.states[T0].leader_epoch == seen.leader_epoch  # nobody has to stop for it
    told = [role.state.version for to, command in controller.heard() if to == 1 and isinstance(command, LeaderAndIsr)
            for role in command.roles if role.where == T0]  # fmt: skip
    assert told == [store.states[T0].version]


def test_who_was_let_in_before_his_death_was_seen_is_taken_out_by_it() -> None:
    controller = three()
    store = controller.store
    store.states[T0] = evolve(store.states[T0], isr=ids(1, 2), version=Version(7))
    controller.desk.cluster.learn_state(T0, store.states[T0])
    store.states[T0] = evolve(store.states[T0], isr=ids(1, 2, 3), version=Version(8))  # by the leader, a moment ago
    come(controller, 3, 9)
    assert store.states[T0].isr == ids(1, 2)
