"""Many moves at once cost little more than one, and nobody waits for his leader until they are dealt with."""

from __future__ import annotations

from collections.abc import Sequence

import trio
from attrs import evolve

from kraft_controller.core import events, failover, moves
from kraft_controller.core.asks import Answer, DropMoves, ReadState, WriteTopic
from kraft_controller.core.commands import LeaderAndIsr
from kraft_controller.core.names import BrokerId, TopicPartition, Version
from kraft_controller.runtime.queue import Queue
from tests.unit.kraft_controller.cluster import Controller, Store

MANY = 60


def ids(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(number) for number in numbers)


def asked_to_move(store: Store) -> list[TopicPartition]:
    """All partitions of a topic, from broker 1 to 2: they are led by who goes."""
    store.topic("t", *[(1,)] * MANY)
    every = [TopicPartition("t", number) for number in range(MANY)]
    store.moves = {where: ids(2) for where in every}
    return every


def catch_up(store: Store) -> None:
    for where, state in store.states.items():
        store.states[where] = evolve(state, isr=ids(1, 2), version=Version(state.version + 1))


def test_a_topics_node_is_written_once_to_begin_and_once_to_end_all_moves_of_it() -> None:
    store = Store(2)
    every = asked_to_move(store)
    controller = Controller(store).take_over()
    assert len(controller.desk.cluster.moving) == MANY
    catch_up(store)
    controller.heard()
    controller.run(events.handle(controller.desk, events.StatesChanged(tuple(every)), controller.new_id))
    assert store.moves == {}
    assert {state.leader for state in store.states.values()} == {2}
    assert {held.replicas for held in store.topics["t"].partitions.values()} == {ids(2)}
    assert controller.desk.cluster.moving == {}
    assert len(controller.stops()) == MANY
    assert sum(isinstance(ask, WriteTopic) for ask in store.asked) == 2
    assert sum(isinstance(ask, DropMoves) for ask in store.asked) == 1
    assert "illegal_transition" not in controller.noted()


def test_one_that_cannot_end_holds_up_none_of_the_others() -> None:
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
    controller.run(moves.go_on(controller.desk, *every))
    assert list(controller.desk.cluster.moving) == [late]
    assert store.topics["t"].partitions[late.partition].moving
    assert store.topics["t"].partitions[left.partition].replicas == ids(2)
    assert set(store.moves) == {late}
    store.before = lambda ask: None
    catch_up(store)
    controller.run(moves.go_on(controller.desk, late))
    assert store.moves == {}


def test_leaders_are_told_before_what_people_asked_for_is_taken_up() -> None:
    store = Store(2)
    asked_to_move(store)
    controller = Controller(store)
    steps = failover.take_over(controller.desk, controller.new_id)
    answers: Sequence[Answer] | None = None
    while asked := (next(steps) if answers is None else steps.send(answers)):
        assert not any(isinstance(ask, WriteTopic) for ask in asked)
        answers = store.answer(asked)
    said = [command for to, command in controller.desk.say() if to == 1 and isinstance(command, LeaderAndIsr)]
    assert [len(command.roles) for command in said] == [MANY]


def test_states_that_have_changed_are_looked_at_together() -> None:
    async def main() -> None:
        queue = Queue()
        some = [TopicPartition("t", number) for number in range(3)]
        queue.note(events.StateChanged(some[0]))
        queue.note(events.BrokersChanged())
        for where in some:
            queue.note(events.StateChanged(where))
        waiter = queue.ask(events.ElectionAsked(()))
        assert await queue.take() == (events.BrokersChanged(), None)  # this one is never behind others
        assert await queue.take() == (events.StatesChanged(tuple(some)), None)
        queue.note(events.StateChanged(some[1]))  # it has changed again since
        assert await queue.take() == (events.ElectionAsked(()), waiter)
        assert await queue.take() == (events.StateChanged(some[1]), None)
        assert len(queue) == 0
        queue.note(events.TookOver())
        queue.note(events.TopicsChanged())
        queue.note(events.BrokersChanged())
        assert [(await queue.take())[0] for _ in range(3)] == [
            events.TookOver(),
            events.BrokersChanged(),
            events.TopicsChanged(),
        ]

    trio.run(main)
