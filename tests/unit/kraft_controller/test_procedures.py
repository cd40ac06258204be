"""What the controller does, told as stories. Topic t has partitions t-0 on 1,2,3, t-1 on 2,3,1 and t-2 on 3,1,2."""

from __future__ import annotations

import pytest
from attrs import evolve

from kraft_controller.core.commands import EPOCH_OF_DELETION, LeaderAndIsr, StopReplica, UpdateMetadata
from kraft_controller.core.controller_context import ControllerSettings
from kraft_controller.core.controller_events import TopicDeletionRequested, TopicDeletionResumed, TopicsChanged
from kraft_controller.core.controller_store import Changed
from kraft_controller.core.names import BrokerEpoch, BrokerId, ControllerEpoch, TopicPartition, Version
from kraft_controller.core.state import Assignment
from kraft_controller.core.topics import topic_deletion
from kraft_controller.core.topics.preferred_election import ElectionOutcome
from kraft_controller.core.transitions import PartitionPhase, ReplicaPhase
from tests.unit.kraft_controller.cluster import Controller, Store, broker
from tests.unit.kraft_controller.store_double import Access, CreateState, DropReassignments, WriteState

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


def ids(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(number) for number in numbers)


def three(settings: ControllerSettings | None = None) -> Controller:
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
    controller.run(controller.term.brokers.process(registrations(controller.store)))


def come(controller: Controller, number: int, epoch: int) -> None:
    controller.store.brokers[BrokerId(number)] = broker(number, epoch)
    controller.heard()
    controller.run(controller.term.brokers.process(registrations(controller.store)))


# -- beginnings ------------------------------------------------------------------------------------------


@pytest.mark.mechanism(1, 2, 37)
def test_first_replica_leads_a_new_partition_with_all_in_sync() -> None:
    controller = three()
    assert controller.leaders() == {"t-0": (1, (1, 2, 3)), "t-1": (2, (2, 3, 1)), "t-2": (3, (3, 1, 2))}
    roles = controller.roles()
    assert len(roles) == 9
    assert all(is_new for _, _, is_new in roles.values())
    assert set(controller.context.phases.values()) == {PartitionPhase.ONLINE}
    assert set(controller.context.replicas.values()) == {ReplicaPhase.ONLINE}


@pytest.mark.mechanism(56, 73, 80)
def test_each_broker_receives_one_command_of_each_kind() -> None:
    said = three().heard()
    kinds = [(to, type(command)) for to, command in said]
    assert sorted(kinds, key=str) == sorted({(to, kind) for to, kind in kinds}, key=str)
    assert [len(c.brokers) for _, c in said if isinstance(c, UpdateMetadata)] == [3, 3, 3]
    assert all(c.full for _, c in said if isinstance(c, LeaderAndIsr))


@pytest.mark.mechanism(69)
def test_replicas_start_before_the_first_election() -> None:
    store = Store()
    store.topic("t", (1, 2, 3), (2, 3, 1))
    Controller(store).take_over()
    del store.brokers[BrokerId(1)]
    controller = Controller(store, epoch=2, me=2)
    started: list[dict[BrokerId, ReplicaPhase]] = []

    def look(access: Access) -> None:
        if isinstance(access, WriteState):
            started.append({broker: phase for (where, broker), phase in controller.context.replicas.items()})

    store.before = look
    controller.take_over()
    assert started
    assert all(phases[BrokerId(2)] is phases[BrokerId(3)] is ReplicaPhase.ONLINE for phases in started)
    assert all(phases[BrokerId(1)] is not ReplicaPhase.ONLINE for phases in started)


def test_partition_without_live_brokers_stays_new() -> None:
    store = Store(2)
    store.topic("t", (3,), (1, 2))
    controller = Controller(store).take_over()
    assert controller.leaders() == {"t-1": (1, (1, 2))}
    assert controller.context.phase(T0) is PartitionPhase.NEW
    come(controller, 3, 9)
    assert controller.leaders()["t-0"] == (3, (3,))


@pytest.mark.mechanism(64)
def test_new_topic_gets_an_id_and_leaders() -> None:
    controller = three()
    controller.store.topic("u", (2, 1), ident=None)
    controller.heard()
    controller.run(controller.term.topic_changes.process_list())
    assert controller.store.topics["u"].id == "n" * 22
    assert controller.roles() == {(1, "u-0"): (2, (2, 1), True), (2, "u-0"): (2, (2, 1), True)}


@pytest.mark.mechanism(67)
def test_added_partitions_get_leaders() -> None:
    controller = three()
    held = controller.store.topics["t"]
    grown = {**held.partitions, 3: Assignment(ids(1, 3))}
    controller.store.topics["t"] = evolve(held, partitions=grown, version=Version(held.version + 1))
    controller.heard()
    controller.run(controller.term.topic_changes.process_modification("t"))
    assert set(controller.roles()) == {(1, "t-3"), (3, "t-3")}


def test_damaged_topic_does_not_affect_others() -> None:
    store = Store()
    store.topic("t", (1, 2))
    store.topic("u", (2, 1))
    store.damaged["t"] = "/brokers/topics/t: not JSON"
    controller = Controller(store).take_over()
    assert controller.leaders() == {"u-0": (2, (2, 1))}
    assert "damaged" in controller.noted()


def test_failed_brokers_leave_the_isrs_of_a_repaired_topic() -> None:
    """They died while it could not be read; so nobody has taken them out yet."""
    controller = three()
    store = controller.store
    store.damaged["t"] = "/brokers/topics/t: not JSON"
    after = Controller(store, epoch=2).take_over()
    die(after, 1)
    assert not after.context.states
    del store.damaged["t"]
    after.run(after.term.topic_changes.process_modification("t"))
    assert after.leaders() == {"t-0": (2, (2, 3)), "t-1": (2, (2, 3)), "t-2": (3, (3, 2))}


# -- brokers -------------------------------------------------------------------------------------------


@pytest.mark.mechanism(52, 53, 54, 77)
def test_broker_failure_elects_leaders_and_shrinks_isrs() -> None:
    """It is seen, the living are listed, what it held is found, leaders and ISRs are written, and all are told."""
    controller = three()
    die(controller, 1)
    assert controller.leaders() == {"t-0": (2, (2, 3)), "t-1": (2, (2, 3)), "t-2": (3, (3, 2))}
    assert controller.roles() == {
        (2, "t-0"): (2, (2, 3), False), (3, "t-0"): (2, (2, 3), False),
        (2, "t-1"): (2, (2, 3), False), (3, "t-1"): (2, (2, 3), False),
        (2, "t-2"): (3, (3, 2), False), (3, "t-2"): (3, (3, 2), False),
    }  # fmt: skip


def test_each_decision_takes_one_leader_epoch() -> None:
    controller = three()
    die(controller, 1)
    assert {where.partition: state.leader_epoch for where, state in controller.store.states.items()} == {
        0: 1,
        1: 1,
        2: 1,
    }


@pytest.mark.mechanism(40, 54)
def test_partition_waits_for_its_last_isr_member() -> None:
    controller = three()
    die(controller, 2, 3)
    die(controller, 1)
    assert controller.leaders() == {"t-0": (-1, (1,)), "t-1": (-1, (1,)), "t-2": (-1, (1,))}
    come(controller, 2, 7)
    assert controller.leaders()["t-0"] == (-1, (1,))
    come(controller, 1, 8)
    assert controller.leaders()["t-0"] == (1, (1,))


@pytest.mark.mechanism(10, 40)
def test_unclean_election_if_configured() -> None:
    controller = three(ControllerSettings(unclean_election=True))
    die(controller, 2, 3)
    die(controller, 1)
    come(controller, 2, 7)
    assert controller.leaders()["t-0"] == (2, (2,))
    assert controller.term.partitions.unclean_elections == 3
    assert "unclean_election" in controller.noted()


def test_topic_overrides_unclean_election() -> None:
    store = Store()
    store.topic("t", (1, 2, 3))
    store.configs["t"] = {"unclean.leader.election.enable": "false"}
    controller = Controller(store, settings=ControllerSettings(unclean_election=True)).take_over()
    assert controller.context.unclean == set()


@pytest.mark.mechanism(51)
def test_bounced_broker_counts_as_failed_and_started() -> None:
    controller = three()
    come(controller, 1, 5)
    assert controller.leaders()["t-0"] == (2, (2, 3))
    said = controller.heard()
    to_it = [command for to, command in said if to == 1]
    assert {command.broker_epoch for command in to_it} == {5}
    assert {type(command) for command in to_it} >= {LeaderAndIsr, UpdateMetadata}


def test_broker_restarted_between_controllers_counts_as_bounced() -> None:
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


def test_restarted_sole_isr_member_leads_in_a_new_leader_epoch() -> None:
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
def test_election_is_repeated_on_a_version_conflict() -> None:
    """The write is refused, the node is read, and the decision is taken again, on what is there now."""
    controller = three()
    store = controller.store

    def meanwhile(access: Access) -> None:
        if isinstance(access, WriteState) and access.where == T0 and store.states[T0].isr == (1, 2, 3):
            store.shrink(T0, 1, 3)

    store.before = meanwhile
    die(controller, 1)
    assert controller.leaders()["t-0"] == (3, (3,))


@pytest.mark.mechanism(84)
def test_state_of_a_newer_controller_is_not_overwritten() -> None:
    controller = three()
    where = T0
    state = controller.store.states[where]
    controller.store.states[where] = evolve(state, controller_epoch=ControllerEpoch(9), version=Version(5))
    die(controller, 1)
    assert controller.store.states[where].leader == 1
    assert "no_leader" in controller.noted()


def test_failed_disk_affects_only_its_replicas() -> None:
    controller = three()
    controller.heard()
    controller.run(controller.term.brokers.replicas_failed(BrokerId(1), [T0]))
    assert controller.leaders() == {"t-0": (2, (2, 3)), "t-1": (2, (2, 3, 1)), "t-2": (3, (3, 1, 2))}


def test_controlled_shutdown_moves_leadership() -> None:
    controller = three()
    controller.heard()
    left = controller.run(controller.term.brokers.controlled_shutdown(BrokerId(1)))
    assert left == ()
    assert controller.leaders() == {"t-0": (2, (2, 3)), "t-1": (2, (2, 3)), "t-2": (3, (3, 2))}
    assert (1, "t-1", False) in controller.stops()


def test_controlled_shutdown_returns_remaining_partitions() -> None:
    controller = three()
    controller.store.shrink(T0, 1)
    controller.context.update_state(T0, controller.store.states[T0])
    assert controller.run(controller.term.brokers.controlled_shutdown(BrokerId(1))) == (T0,)


# -- moving --------------------------------------------------------------------------------------------


def caught_up(controller: Controller, where: TopicPartition, *isr: int) -> None:
    controller.store.shrink(where, *isr)
    controller.run(controller.term.reassignment.complete_if_caught_up(where))


def six() -> Controller:
    store = Store(6)
    store.topic("t", (1, 2, 3))
    controller = Controller(store).take_over()
    controller.heard()
    return controller


def test_reassignment_to_other_brokers() -> None:
    controller = six()
    assert controller.run(controller.term.reassignment.alter({T0: ids(4, 5, 6)})) == {}
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
    assert controller.context.moving == {}


def test_reassignment_waits_for_an_eligible_target_leader() -> None:
    controller = six()
    controller.run(controller.term.reassignment.alter({T0: ids(4)}))
    controller.store.shrink(T0, 1, 4)
    del controller.context.brokers[BrokerId(4)]
    controller.run(controller.term.reassignment.complete_if_caught_up(T0))
    assert controller.store.topics["t"].partitions[0].moving
    assert T0 in controller.context.moving


@pytest.mark.parametrize("target", [(4, 1), (4, 5)], ids=["who leads stays", "another is to lead"])
def test_reassignment_waits_for_a_target_that_left_the_isr(target: tuple[int, ...]) -> None:
    controller = six()
    store = controller.store
    controller.run(controller.term.reassignment.alter({T0: ids(*target)}))
    store.shrink(T0, *dict.fromkeys((1, 2, 3, *target)))

    def leaves(access: Access) -> None:
        if isinstance(access, WriteState):
            store.before = lambda _: None
            store.shrink(T0, 1, 2, 3)

    store.before = leaves
    controller.run(controller.term.reassignment.complete_if_caught_up(T0))
    assert store.topics["t"].partitions[0].moving
    assert store.states[T0].isr == ids(1, 2, 3)
    assert T0 in controller.context.moving
    caught_up(controller, T0, *dict.fromkeys((1, 2, 3, *target)))
    assert store.topics["t"].partitions[0] == Assignment(ids(*target))


@pytest.mark.parametrize("target", [(4, 1), (5, 4)], ids=["who leads stays", "another is to lead"])
def test_reassignment_waits_for_a_target_in_controlled_shutdown(target: tuple[int, ...]) -> None:
    controller = six()
    everybody = tuple(dict.fromkeys((1, 2, 3, *target)))
    controller.run(controller.term.reassignment.alter({T0: ids(*target)}))
    controller.run(controller.term.brokers.controlled_shutdown(BrokerId(4)))
    caught_up(controller, T0, *everybody)  # its leader has not heard of that yet
    assert controller.store.topics["t"].partitions[0].moving
    assert controller.stops() == {(4, "t-0", False)}
    die(controller, 4)
    come(controller, 4, 99)
    caught_up(controller, T0, *everybody)
    assert controller.store.topics["t"].partitions[0] == Assignment(ids(*target))


@pytest.mark.mechanism(71)
def test_new_controller_resumes_a_reassignment() -> None:
    controller = six()
    controller.run(controller.term.reassignment.alter({T0: ids(4, 2)}))
    controller.store.shrink(T0, 1, 2, 3, 4)
    after = Controller(controller.store, epoch=2).take_over()
    assert controller.store.topics["t"].partitions[0] == Assignment(ids(4, 2))
    assert after.leaders() == {"t-0": (4, (4, 2))} or after.leaders() == {"t-0": (4, (2, 4))}


def test_reassignment_is_cancelled() -> None:
    controller = six()
    controller.run(controller.term.reassignment.alter({T0: ids(4, 5, 6)}))
    controller.heard()
    assert controller.run(controller.term.reassignment.alter({T0: None})) == {}
    assert controller.store.topics["t"].partitions[0] == Assignment(ids(1, 2, 3))
    assert {(4, "t-0", True), (5, "t-0", True), (6, "t-0", True)} <= controller.stops()
    assert controller.run(controller.term.reassignment.alter({T0: None})) == {
        T0: "there is no reassignment in progress to cancel"
    }


def test_newer_request_survives_the_end_of_the_reassignment() -> None:
    controller = six()
    controller.store.moves = {T0: ids(4, 5)}
    controller.run(controller.term.reassignment.process_node())
    controller.store.moves = {T0: ids(6)}
    caught_up(controller, T0, 1, 2, 3, 4, 5)
    assert controller.store.topics["t"].partitions[0] == Assignment(ids(4, 5))
    assert controller.store.moves == {T0: ids(6)}
    controller.run(controller.term.reassignment.process_node())
    assert controller.store.topics["t"].partitions[0].adding == ids(6)
    caught_up(controller, T0, 4, 5, 6)
    assert controller.store.moves == {}


def test_impossible_reassignments_are_refused() -> None:
    controller = six()
    wanted = {T0: ids(9), TopicPartition("u", 0): ids(1), TopicPartition("t", 7): ids(1)}
    failed = controller.run(controller.term.reassignment.alter(wanted))
    assert failed == {
        T0: "brokers [9] are not alive or are shutting down, so no replica can be added there",
        TopicPartition("u", 0): "the partition does not exist",
        TopicPartition("t", 7): "the partition does not exist",
    }
    assert controller.run(controller.term.reassignment.alter({T0: ids(1, 1)})).keys() == {T0}
    assert controller.run(controller.term.reassignment.alter({T0: ()})).keys() == {T0}


def test_request_is_refused_if_its_topic_is_deleted_during_the_same_reassignment() -> None:
    controller = six()
    controller.run(controller.term.reassignment.alter({T0: ids(4, 5, 6)}))
    delete(controller)
    controller.store.moves = {T0: ids(4, 5, 6)}
    controller.run(controller.term.reassignment.process_node())
    assert controller.store.moves == {}


def test_empty_reassignment_request_is_removed() -> None:
    controller = six()
    controller.store.moves = {}
    controller.run(controller.term.reassignment.process_node())
    assert DropReassignments(()) in controller.store.accesses


@pytest.mark.mechanism(61)
def test_reassignment_requests_in_the_node_are_processed() -> None:
    controller = six()
    controller.store.moves = {T0: ids(4, 5), TopicPartition("gone", 0): ids(1)}
    controller.run(controller.term.reassignment.process_node())
    assert controller.store.moves == {T0: ids(4, 5)}
    caught_up(controller, T0, 1, 2, 3, 4, 5)
    assert controller.store.moves == {}
    assert "reassignment_refused" in controller.noted()


def test_concurrent_topic_change_is_kept() -> None:
    controller = six()
    store = controller.store

    def meanwhile(access: Access) -> None:
        if len(store.topics["t"].partitions) == 1:
            held = store.topics["t"]
            grown = {**held.partitions, 1: Assignment(ids(1))}
            store.topics["t"] = evolve(held, partitions=grown, version=Version(held.version + 1))

    store.before = meanwhile
    controller.run(controller.term.reassignment.alter({T0: ids(4, 5, 6)}))
    assert set(store.topics["t"].partitions) == {0, 1}
    assert store.topics["t"].partitions[0].moving


# -- deleting ------------------------------------------------------------------------------------------


def delete(controller: Controller) -> None:
    controller.store.deletions.append("t")
    controller.heard()
    controller.run(controller.term.deletion.process_requests())


def test_topic_is_deleted_when_all_brokers_confirmed() -> None:
    controller = three()
    delete(controller)
    said = controller.heard()
    metadata = [command for _, command in said if isinstance(command, UpdateMetadata)]
    assert {role.state.leader for command in metadata for role in command.roles} == {-2}
    stops = [stop for _, command in said if isinstance(command, StopReplica) for stop in command.stops]
    assert len(stops) == 9
    assert {(stop.delete, stop.leader_epoch) for stop in stops} == {(True, EPOCH_OF_DELETION)}
    for number in (1, 2):
        controller.run(controller.term.deletion.replicas_answered(BrokerId(number), [T0, T1, T2], []))
        assert "t" in controller.store.topics
    controller.run(controller.term.deletion.replicas_answered(BrokerId(3), [T0, T1, T2], []))
    assert (controller.store.topics, controller.store.states, controller.store.deletions) == ({}, {}, [])
    assert controller.context.topics == {}
    assert "illegal_transition" not in controller.noted()


def test_deletion_waits_for_a_failed_broker() -> None:
    controller = three()
    die(controller, 3)
    delete(controller)
    assert controller.stops() == set()
    come(controller, 3, 8)
    assert len(controller.stops()) == 9
    for number in (1, 2, 3):
        controller.run(controller.term.deletion.replicas_answered(BrokerId(number), [T0, T1, T2], []))
    assert controller.store.topics == {}
    assert "illegal_transition" not in controller.noted()


def test_deletion_resumes_when_a_broker_is_back() -> None:
    controller = three()
    delete(controller)
    for number in (1, 2):
        controller.run(controller.term.deletion.replicas_answered(BrokerId(number), [T0, T1, T2], []))
    die(controller, 3)
    assert "t" in controller.store.topics
    come(controller, 3, 8)
    assert controller.stops() == {(3, f"t-{number}", True) for number in range(3)}
    controller.run(controller.term.deletion.replicas_answered(BrokerId(3), [T0, T1, T2], []))
    assert controller.store.topics == {}
    assert "illegal_transition" not in controller.noted()


@pytest.mark.mechanism(75)
def test_new_controller_repeats_a_deletion() -> None:
    controller = three()
    delete(controller)
    controller.run(controller.term.deletion.replicas_answered(BrokerId(1), [T0, T1, T2], []))
    after = Controller(controller.store, epoch=2).take_over()
    assert len(after.stops()) == 9
    for number in (1, 2, 3):
        after.run(after.term.deletion.replicas_answered(BrokerId(number), [T0, T1, T2], []))
    assert after.store.topics == {}


def died_while_nodes_went() -> Controller:
    """All replicas are deleted, and the state of t-0 is, too; then the controller dies. Broker 3 is not there when the
    next one begins."""
    before = three()
    delete(before)
    del before.store.states[T0]
    del before.store.brokers[BrokerId(3)]
    after = Controller(before.store, epoch=2).take_over()
    assert after.context.deletion_waits == {"t": "broker 3, which holds t-0, is not registered"}
    return after


def assert_nothing_began(controller: Controller) -> None:
    """A leader of t-0 would be in the leader epoch in which there was one already, and its records others."""
    assert T0 not in controller.store.states
    assert "illegal_transition" not in controller.noted()


@pytest.mark.mechanism(75)
def test_half_deleted_topic_does_not_restart_when_its_broker_starts() -> None:
    after = died_while_nodes_went()
    come(after, 3, 8)
    assert_nothing_began(after)
    assert len(after.stops()) == 9
    for number in (1, 2, 3):
        after.run(after.term.deletion.replicas_answered(BrokerId(number), [T0, T1, T2], []))
    assert (after.store.topics, after.store.states, after.store.deletions) == ({}, {}, [])


@pytest.mark.mechanism(75)
def test_half_deleted_topic_does_not_restart_when_a_broker_fails() -> None:
    after = died_while_nodes_went()
    left = dict(after.store.states)
    die(after, 1)
    assert_nothing_began(after)
    assert after.store.states == left


def test_half_deleted_topic_does_not_gain_partitions() -> None:
    after = died_while_nodes_went()
    topic = after.store.topics["t"]
    more = {**topic.partitions, 3: Assignment(ids(1, 2))}
    after.store.topics["t"] = evolve(topic, partitions=more, version=Version(topic.version + 1))
    after.run(after.term.topic_changes.process_modification("t"))
    assert_nothing_began(after)
    assert set(after.store.topics["t"].partitions) == {0, 1, 2}
    come(after, 3, 8)
    assert_nothing_began(after)


def test_deletion_is_repeated_if_nodes_remain() -> None:
    controller = three()
    delete(controller)
    controller.store.keeps.add("t")
    for number in (1, 2, 3):
        controller.run(controller.term.deletion.replicas_answered(BrokerId(number), [T0, T1, T2], []))
    assert controller.store.deletions == ["t"]
    assert controller.context.is_deleting("t")
    assert controller.context.deletion_waits == {"t": "another client creates nodes below the topic's node"}
    controller.store.keeps.clear()
    controller.heard()
    controller.run(controller.term.deletion.process_requests())
    assert controller.stops() == set()  # the brokers have deleted the replicas already
    assert (controller.store.topics, controller.store.deletions) == ({}, [])
    assert controller.context.topics == {}


def in_chunks(monkeypatch: pytest.MonkeyPatch, limit: int = 1) -> Controller:
    """All replicas of three partitions are deleted, and the nodes of the first `limit` ones are, too."""
    monkeypatch.setattr(topic_deletion, "PARTITIONS_DELETED_MAX", limit)
    controller = three()
    delete(controller)
    controller.processes_queued = False
    for number in (1, 2, 3):
        controller.run(controller.term.deletion.replicas_answered(BrokerId(number), [T0, T1, T2], []))
    controller.queued.clear()
    controller.handle(TopicDeletionResumed("t"))
    assert (len(controller.store.states), controller.queued) == (3 - limit, [TopicDeletionResumed("t")])
    return controller


def test_topic_goes_after_all_its_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = in_chunks(monkeypatch)
    controller.handle(controller.queued.pop())
    assert controller.queued == [TopicDeletionResumed("t")]
    assert ("t" in controller.store.topics, controller.store.deletions) == (True, ["t"])
    controller.handle(controller.queued.pop())
    assert (controller.store.topics, controller.store.states, controller.store.deletions) == ({}, {}, [])
    assert (controller.context.topics, controller.context.states, controller.queued) == ({}, {}, [])
    assert "illegal_transition" not in controller.noted()


def test_broker_failure_during_the_deletion_of_nodes_does_not_delay_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker has already deleted its replicas."""
    controller = in_chunks(monkeypatch)
    die(controller, 3)
    controller.handle(TopicDeletionRequested())
    assert controller.context.deletion_waits == {}
    controller.processes_queued = True
    come(controller, 3, 8)
    assert controller.stops() == set()
    assert (controller.store.topics, controller.store.states, controller.store.deletions) == ({}, {}, [])
    assert "illegal_transition" not in controller.noted()


def test_new_controller_deletes_the_remaining_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    before = in_chunks(monkeypatch)
    after = Controller(before.store, epoch=2).take_over()
    assert set(after.store.states) == {T1, T2}
    for number in (1, 2, 3):
        after.run(after.term.deletion.replicas_answered(BrokerId(number), [T0, T1, T2], []))
    assert (after.store.topics, after.store.states, after.store.deletions) == ({}, {}, [])
    assert "illegal_transition" not in after.noted()


def test_node_deletion_ends_if_the_topic_was_removed_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = in_chunks(monkeypatch)
    del controller.store.topics["t"]
    controller.handle(TopicsChanged())
    before = len(controller.store.accesses)
    controller.handle(controller.queued.pop(0))
    assert (len(controller.store.accesses), controller.queued) == (before, [])
    assert (controller.context.replicas, controller.context.phases) == ({}, {})


def test_replica_that_cannot_be_deleted_suspends_the_deletion() -> None:
    controller = three()
    delete(controller)
    controller.run(controller.term.deletion.replicas_answered(BrokerId(1), [T1, T2], [T0]))
    for number in (2, 3):
        controller.run(controller.term.deletion.replicas_answered(BrokerId(number), [T0, T1, T2], []))
    assert "t" in controller.store.topics
    assert controller.context.deletion_waits == {"t": "broker 1 could not delete t-0"}


def reasons_logged(controller: Controller) -> list[object]:
    """The reasons for which deletions wait, in the order of the log."""
    return [dict(message.fields)["why"] for message in controller.messages if message.event == "deletion_waits"]


def test_suspended_deletion_logs_its_reason_once() -> None:
    controller = three()
    delete(controller)
    controller.run(controller.term.brokers.replicas_failed(BrokerId(1), [T1, T2]))
    unusable = "broker 1 cannot use its replica of t-1"
    assert controller.context.deletion_waits == {"t": unusable}
    controller.run(controller.term.deletion.process_requests())
    assert reasons_logged(controller) == [unusable]
    die(controller, 3)
    gone = "broker 3, which holds t-0, is not registered"
    assert controller.context.deletion_waits == {"t": gone}
    assert reasons_logged(controller) == [unusable, gone]


def test_deletion_that_is_ordered_again_at_once_does_not_wait() -> None:
    controller = three()
    delete(controller)
    controller.heard()
    controller.run(controller.term.brokers.resend_full_state(BrokerId(1)))
    assert controller.stops() == {(1, f"t-{number}", True) for number in range(3)}
    come(controller, 2, 8)
    assert controller.stops() == {(2, f"t-{number}", True) for number in range(3)}
    assert (controller.context.deletion_waits, reasons_logged(controller)) == ({}, [])


def test_deletion_is_refused_if_disabled() -> None:
    controller = three(ControllerSettings(deletion=False))
    controller.store.deletions.append("u")
    delete(controller)
    assert controller.store.deletions == []
    assert "t" in controller.store.topics


# -- elections on request --------------------------------------------------------------------------------


@pytest.mark.mechanism(63, 72)
def test_preferred_election_requests_in_the_node_are_processed() -> None:
    controller = three()
    die(controller, 1)
    come(controller, 1, 5)
    controller.store.shrink(T0, 2, 3, 1)
    controller.context.update_state(T0, controller.store.states[T0])
    controller.store.preferred = (T0, T1, TopicPartition("u", 0))
    controller.run(controller.term.elections.process_node())
    assert controller.leaders()["t-0"] == (1, (2, 3, 1))
    assert not controller.store.preferred


def test_failed_preferred_election_of_a_led_partition_is_no_missing_leader() -> None:
    controller = three()
    die(controller, 1)
    come(controller, 1, 5)
    outcomes = controller.run(controller.term.elections.elect([T0]))
    assert outcomes == {T0: ElectionOutcome.PREFERRED_NOT_AVAILABLE}
    assert "leader_not_changed" in controller.noted()
    assert "no_leader" not in controller.noted()


def test_requested_unclean_election_needs_a_leaderless_partition() -> None:
    controller = three()
    die(controller, 2, 3)
    die(controller, 1)
    come(controller, 3, 9)
    verdicts = controller.run(controller.term.elections.elect([T0], unclean=True))
    assert verdicts == {T0: ElectionOutcome.ELECTED}
    assert controller.leaders()["t-0"] == (3, (3,))
    verdicts = controller.run(controller.term.elections.elect([T0], unclean=True))
    assert verdicts == {T0: ElectionOutcome.NOT_NEEDED}


@pytest.mark.mechanism(74)
def test_balancing_needs_a_preferred_leader_in_sync() -> None:
    controller = three()
    die(controller, 1)
    come(controller, 1, 5)
    elections = controller.term.partitions.elections
    controller.run(controller.term.elections.balance())
    assert controller.term.partitions.elections == elections
    controller.store.shrink(T0, 2, 3, 1)
    controller.context.update_state(T0, controller.store.states[T0])
    controller.run(controller.term.elections.balance())
    assert controller.leaders()["t-0"] == (1, (2, 3, 1))


# -- failover --------------------------------------------------------------------------------------------


@pytest.mark.mechanism(55)
def test_new_controller_writes_its_own_epoch() -> None:
    controller = three()
    del controller.store.brokers[BrokerId(1)]
    after = Controller(controller.store, epoch=2, me=2).take_over()
    assert after.leaders() == {"t-0": (2, (2, 3)), "t-1": (2, (2, 3)), "t-2": (3, (3, 2))}
    assert {state.controller_epoch for state in controller.store.states.values()} == {2}
    assert {command.controller_epoch for _, command in after.heard()} == {2}


@pytest.mark.mechanism(68, 78)
def test_failover_takes_constant_rounds() -> None:
    rounds = []
    for size in (5, 50):
        store = Store()
        store.topic("t", *[(1, 2, 3)] * size)
        Controller(store).take_over()
        rounds.append(store.rounds)
    assert rounds[0] == rounds[1]
    assert len([access for access in store.accesses if isinstance(access, CreateState)]) == 50


def test_configuration_of_the_controllers_broker_precedes_the_default() -> None:
    store = Store()
    store.topic("t", (1, 2, 3))
    unclean = "unclean.leader.election.enable"
    store.configs["<default>"] = {unclean: "false", "min.insync.replicas": "2"}
    store.configs["1"] = {unclean: "true"}
    controller = Controller(store).take_over()
    assert controller.context.unclean == {"t"}
    assert controller.context.defaults.min_isr == 2
    store.configs["1"] = {}
    store.config_notes.append("brokers/2")
    controller.run(controller.term.topic_changes.process_config_changes())
    assert controller.context.unclean == {"t"}  # another broker's is its own matter
    store.config_notes.append("brokers/1")
    controller.run(controller.term.topic_changes.process_config_changes())
    assert controller.context.unclean == set()


def test_failed_follower_cannot_join_the_isr_on_an_old_version() -> None:
    """A leader has asked for 3 in the ISR. Before it is written 3 has died, and is back with less than it had."""
    controller = three()
    store = controller.store
    seen = store.states[T0] = evolve(store.states[T0], isr=ids(1, 2), version=Version(7))
    controller.context.update_state(T0, seen)
    asked = WriteState(T0, evolve(seen, isr=ids(1, 2, 3)))
    controller.heard()
    come(controller, 3, 9)
    assert isinstance(store.answer([asked])[0], Changed)
    assert store.states[T0].isr == ids(1, 2)
    assert store.states[T0].leader_epoch == seen.leader_epoch  # nobody has to stop for it
    told = [role.state.version for to, command in controller.heard() if to == 1 and isinstance(command, LeaderAndIsr)
            for role in command.roles if role.where == T0]  # fmt: skip
    assert told == [store.states[T0].version]


def test_failed_follower_that_just_joined_leaves_the_isr() -> None:
    controller = three()
    store = controller.store
    store.states[T0] = evolve(store.states[T0], isr=ids(1, 2), version=Version(7))
    controller.context.update_state(T0, store.states[T0])
    store.states[T0] = evolve(store.states[T0], isr=ids(1, 2, 3), version=Version(8))  # by the leader, a moment ago
    come(controller, 3, 9)
    assert store.states[T0].isr == ids(1, 2)
