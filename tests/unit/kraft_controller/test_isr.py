"""Leaders change their ISRs. Partition t-0 is on 1,2,3, led by 1, all in sync."""

from __future__ import annotations

import pytest
from attrs import evolve

from kraft_controller.core import events, isr
from kraft_controller.core.isr import Error, Granted, Member, Wish
from kraft_controller.core.names import BrokerEpoch, BrokerId, LeaderEpoch, TopicPartition, Version
from kraft_controller.core.state import Recovery
from tests.unit.kraft_controller.cluster import Controller, Store

T0 = TopicPartition("t", 0)
ONE = BrokerEpoch(1)


def three() -> Controller:
    store = Store()
    store.topic("t", (1, 2, 3))
    controller = Controller(store).take_over()
    controller.heard()
    return controller


def wish(*members: int, leader_epoch: int = 0, version: int = 0, recovery: Recovery = Recovery.RECOVERED) -> Wish:
    wanted = tuple(Member(BrokerId(number), ONE) for number in members)
    return Wish(T0, LeaderEpoch(leader_epoch), Version(version), wanted, recovery)


def ask(controller: Controller, wanted: Wish, broker: int = 1, epoch: int = 1) -> Granted:
    event = events.IsrAsked(BrokerId(broker), BrokerEpoch(epoch), (wanted,))
    answers = controller.run(events.handle(controller.desk, event, controller.new_id))
    granted: Granted = answers[T0]
    return granted


@pytest.mark.mechanism(39, 77)
def test_a_leader_shrinks_its_isr_and_its_leader_epoch_stays() -> None:
    controller = three()
    granted = ask(controller, wish(1, 3))
    assert granted.error is Error.NONE
    assert granted.state == controller.store.states[T0]
    assert (granted.state.isr, granted.state.leader_epoch, granted.state.version) == ((1, 3), 0, 1)
    assert {to: told["t-0"] for to, told in controller.metadata().items()} == {1: 1, 2: 1, 3: 1}


def test_the_answer_was_lost_and_it_asks_again() -> None:
    controller = three()
    first = ask(controller, wish(1, 3))
    assert ask(controller, wish(1, 3)) == first
    assert controller.store.states[T0].version == 1


@pytest.mark.parametrize(
    ("wanted", "broker", "epoch", "error"),
    [
        (wish(1, 3), 1, 9, Error.STALE_BROKER_EPOCH),
        (wish(1, 3), 7, 1, Error.STALE_BROKER_EPOCH),
        (evolve(wish(1), where=TopicPartition("u", 0)), 1, 1, Error.UNKNOWN_TOPIC_OR_PARTITION),
        (wish(1, 3, leader_epoch=1), 1, 1, Error.NOT_CONTROLLER),
        (wish(1, 3, version=1), 1, 1, Error.NOT_CONTROLLER),
        (wish(1, 3, leader_epoch=-1), 1, 1, Error.FENCED_LEADER_EPOCH),
        (wish(1, 3, version=-1), 1, 1, Error.INVALID_UPDATE_VERSION),
        (wish(2, 3), 2, 1, Error.INVALID_REQUEST),
        (wish(2, 3), 1, 1, Error.INVALID_REQUEST),
        (wish(1, 1), 1, 1, Error.INVALID_REQUEST),
        (wish(1, 4), 1, 1, Error.INVALID_REQUEST),
        (wish(1, 2, recovery=Recovery.RECOVERING), 1, 1, Error.INVALID_REQUEST),
        (wish(1, recovery=Recovery.RECOVERING), 1, 1, Error.INVALID_REQUEST),
        (
            evolve(wish(1), isr=(Member(BrokerId(1)), Member(BrokerId(2), BrokerEpoch(7)))),
            1,
            1,
            Error.INELIGIBLE_REPLICA,
        ),
    ],
)
def test_what_is_refused(wanted: Wish, broker: int, epoch: int, error: Error) -> None:
    controller = three()
    before = controller.store.states[T0]
    event = events.IsrAsked(BrokerId(broker), BrokerEpoch(epoch), (wanted,))
    answers = controller.run(events.handle(controller.desk, event, controller.new_id))
    assert [granted.error for granted in answers.values()] == [error]
    assert controller.store.states[T0] == before


def test_who_is_leaving_or_dead_does_not_come_in() -> None:
    controller = three()
    assert ask(controller, wish(1, 3)).error is Error.NONE
    controller.desk.cluster.leaving.add(BrokerId(2))
    assert ask(controller, wish(1, 2, 3, version=1)).error is Error.INELIGIBLE_REPLICA
    controller.desk.cluster.leaving.clear()
    del controller.desk.cluster.brokers[BrokerId(2)]
    assert ask(controller, wish(1, 2, 3, version=1)).error is Error.INELIGIBLE_REPLICA


@pytest.mark.mechanism(84)
def test_somebody_wrote_the_node_meanwhile() -> None:
    controller = three()
    controller.store.shrink(T0, 1, 2)
    assert ask(controller, wish(1, 3)).error is Error.INVALID_UPDATE_VERSION
    assert controller.desk.cluster.states[T0].isr == (1, 2)


@pytest.mark.mechanism(62)
def test_leaders_that_write_themselves_leave_a_note() -> None:
    controller = three()
    controller.store.shrink(T0, 1, 2)
    controller.store.isr_changes = (T0, T0, TopicPartition("gone", 3))
    controller.run(isr.noted(controller.desk))
    assert controller.desk.cluster.states[T0].isr == (1, 2)
    assert set(controller.metadata()) == {1, 2, 3}
