"""Many moves at once cost little more than one, and nobody waits for his leader until they are dealt with."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from kraft_controller.core import controller_events as events
from kraft_controller.core.commands import LeaderAndIsr
from kraft_controller.core.event_queue import EventQueue
from kraft_controller.core.names import BrokerId, TopicPartition, Version
from tests.unit.kraft_controller.cluster import Controller, Store
from tests.unit.kraft_controller.store_double import DropReassignments, Procedure, ReadState, WriteTopic

MANY = 60


def ids(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(number) for number in numbers)


def asked_to_move(store: Store) -> list[TopicPartition]:
    """All partitions of a topic move from broker 1, which leads them, to broker 2."""
    store.topic("t", *[(1,)] * MANY)
    every = [TopicPartition("t", number) for number in range(MANY)]
    store.moves = {where: ids(2) for where in every}
    return every


def catch_up(store: Store) -> None:
    for where, state in store.states.items():
        store.states[where] = evolve(state, isr=ids(1, 2), version=Version(state.version + 1))


def test_topic_node_is_written_once_for_all_its_reassignments() -> None:
    store = Store(2)
    every = asked_to_move(store)
    controller = Controller(store).take_over()
    assert len(controller.context.moving) == MANY
    catch_up(store)
    controller.heard()
    controller.handle(events.PartitionStatesChanged(tuple(every)))
    assert store.moves == {}
    assert {state.leader for state in store.states.values()} == {2}
    assert {held.replicas for held in store.topics["t"].partitions.values()} == {ids(2)}
    assert controller.context.moving == {}
    assert len(controller.stops()) == MANY
    assert sum(isinstance(access, WriteTopic) for access in store.accesses) == 2
    assert sum(isinstance(access, DropReassignments) for access in store.accesses) == 1
    assert "illegal_transition" not in controller.noted()


def test_incomplete_reassignment_delays_no_other() -> None:
    store = Store(2)
    every = asked_to_move(store)
    controller = Controller(store).take_over()
    catch_up(store)
    late, left = every[3], every[7]

    def meanwhile(ask: object) -> None:
        if ask == ReadState(every[-1], watch=True):  # they have been looked at, and leave the ISR since
            store.shrink(late, 1)
            store.shrink(left, 2)

    store.before = meanwhile
    controller.run(controller.term.reassignment.complete_if_caught_up(*every))
    assert list(controller.context.moving) == [late]
    assert store.topics["t"].partitions[late.partition].moving
    assert store.topics["t"].partitions[left.partition].replicas == ids(2)
    assert set(store.moves) == {late}
    store.before = lambda ask: None
    catch_up(store)
    controller.run(controller.term.reassignment.complete_if_caught_up(late))
    assert store.moves == {}


def test_leaders_are_sent_before_requests_are_processed() -> None:
    store = Store(2)
    asked_to_move(store)
    controller = Controller(store)
    procedure: Procedure = controller.term.process(events.ControllerElected())
    answers: Any = None
    while not controller.sent.commands:
        accesses = next(procedure) if answers is None else procedure.send(answers)
        assert not any(isinstance(access, WriteTopic) for access in accesses)
        answers = store.answer(accesses)
    roles = [command.roles for to, command in controller.heard() if to == 1 and isinstance(command, LeaderAndIsr)]
    assert [len(each) for each in roles] == [MANY]


def test_changed_states_are_processed_together() -> None:
    queue = EventQueue(lambda: 0.0)
    some = [TopicPartition("t", number) for number in range(3)]

    def taken() -> events.Event:
        queued = queue.take()
        assert queued is not None
        return queued.event

    queue.note(events.PartitionStateChanged(some[0]))
    queue.note(events.BrokersChanged())
    for where in some:
        queue.note(events.PartitionStateChanged(where))
    result = queue.ask(events.ElectLeadersRequested(()), lambda: None)
    assert taken() == events.BrokersChanged()  # it goes first
    assert taken() == events.PartitionStatesChanged(tuple(some))
    queue.note(events.PartitionStateChanged(some[1]))  # it has changed again since
    requested = queue.take()
    assert requested is not None
    assert (requested.event, requested.result) == (events.ElectLeadersRequested(()), result)
    assert taken() == events.PartitionStateChanged(some[1])
    assert queue.take() is None
    queue.note(events.ControllerElected())
    queue.note(events.TopicsChanged())
    queue.note(events.BrokersChanged())
    assert [taken() for _ in range(3)] == [events.ControllerElected(), events.BrokersChanged(), events.TopicsChanged()]
