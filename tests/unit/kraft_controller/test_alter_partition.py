"""Leaders change their ISRs. Partition t-0 is on 1,2,3, led by 1, all in sync."""

from __future__ import annotations

import pytest
from attrs import evolve

from kraft_controller.core import controller_events as events
from kraft_controller.core.names import BrokerEpoch, BrokerId, LeaderEpoch, TopicPartition, Version
from kraft_controller.core.state import Recovery
from kraft_controller.core.topics.alter_partition import AlterPartitionError, IsrChange, IsrChangeResult, IsrMember
from tests.unit.kraft_controller.cluster import Controller, Store

T0 = TopicPartition("t", 0)
ONE = BrokerEpoch(1)


def three() -> Controller:
    store = Store()
    store.topic("t", (1, 2, 3))
    controller = Controller(store).take_over()
    controller.heard()
    return controller


def wish(*members: int, leader_epoch: int = 0, version: int = 0, recovery: Recovery = Recovery.RECOVERED) -> IsrChange:
    wanted = tuple(IsrMember(BrokerId(number), ONE) for number in members)
    return IsrChange(T0, LeaderEpoch(leader_epoch), Version(version), wanted, recovery)


def ask(controller: Controller, wanted: IsrChange, broker: int = 1, epoch: int = 1) -> IsrChangeResult:
    event = events.AlterPartitionRequested(BrokerId(broker), BrokerEpoch(epoch), (wanted,))
    answers = controller.handle(event)
    granted: IsrChangeResult = answers[T0]
    return granted


@pytest.mark.mechanism(39, 77)
def test_leader_shrinks_its_isr_in_the_same_leader_epoch() -> None:
    controller = three()
    granted = ask(controller, wish(1, 3))
    assert granted.error is AlterPartitionError.NONE
    assert granted.state == controller.store.states[T0]
    assert (granted.state.isr, granted.state.leader_epoch, granted.state.version) == ((1, 3), 0, 1)
    assert {to: told["t-0"] for to, told in controller.metadata().items()} == {1: 1, 2: 1, 3: 1}


def test_repeated_request_after_a_lost_reply_succeeds() -> None:
    controller = three()
    first = ask(controller, wish(1, 3))
    assert ask(controller, wish(1, 3)) == first
    assert controller.store.states[T0].version == 1


@pytest.mark.parametrize(
    ("wanted", "broker", "epoch", "error"),
    [
        (wish(1, 3), 1, 9, AlterPartitionError.STALE_BROKER_EPOCH),
        (wish(1, 3), 7, 1, AlterPartitionError.STALE_BROKER_EPOCH),
        (evolve(wish(1), where=TopicPartition("u", 0)), 1, 1, AlterPartitionError.UNKNOWN_TOPIC_OR_PARTITION),
        (wish(1, 3, leader_epoch=1), 1, 1, AlterPartitionError.NOT_CONTROLLER),
        (wish(1, 3, version=1), 1, 1, AlterPartitionError.NOT_CONTROLLER),
        (wish(1, 3, leader_epoch=-1), 1, 1, AlterPartitionError.FENCED_LEADER_EPOCH),
        (wish(1, 3, version=-1), 1, 1, AlterPartitionError.INVALID_UPDATE_VERSION),
        (wish(2, 3), 2, 1, AlterPartitionError.INVALID_REQUEST),
        (wish(2, 3), 1, 1, AlterPartitionError.INVALID_REQUEST),
        (wish(1, 1), 1, 1, AlterPartitionError.INVALID_REQUEST),
        (wish(1, 4), 1, 1, AlterPartitionError.INVALID_REQUEST),
        (wish(1, 2, recovery=Recovery.RECOVERING), 1, 1, AlterPartitionError.INVALID_REQUEST),
        (wish(1, recovery=Recovery.RECOVERING), 1, 1, AlterPartitionError.INVALID_REQUEST),
        (
            evolve(wish(1), isr=(IsrMember(BrokerId(1)), IsrMember(BrokerId(2), BrokerEpoch(7)))),
            1,
            1,
            AlterPartitionError.INELIGIBLE_REPLICA,
        ),
    ],
)
def test_invalid_isr_change_is_refused_and_changes_nothing(
    wanted: IsrChange, broker: int, epoch: int, error: AlterPartitionError
) -> None:
    controller = three()
    before = controller.store.states[T0]
    event = events.AlterPartitionRequested(BrokerId(broker), BrokerEpoch(epoch), (wanted,))
    answers = controller.handle(event)
    assert [granted.error for granted in answers.values()] == [error]
    assert controller.store.states[T0] == before


def test_failed_or_stopping_broker_does_not_join_the_isr() -> None:
    controller = three()
    assert ask(controller, wish(1, 3)).error is AlterPartitionError.NONE
    controller.context.shutting_down.add(BrokerId(2))
    assert ask(controller, wish(1, 2, 3, version=1)).error is AlterPartitionError.INELIGIBLE_REPLICA
    controller.context.shutting_down.clear()
    del controller.context.brokers[BrokerId(2)]
    assert ask(controller, wish(1, 2, 3, version=1)).error is AlterPartitionError.INELIGIBLE_REPLICA


@pytest.mark.mechanism(84)
def test_request_on_an_outdated_version_fails() -> None:
    controller = three()
    controller.store.shrink(T0, 1, 2)
    assert ask(controller, wish(1, 3)).error is AlterPartitionError.INVALID_UPDATE_VERSION
    assert controller.context.states[T0].isr == (1, 2)


@pytest.mark.mechanism(62)
def test_notification_updates_the_context_and_all_brokers() -> None:
    controller = three()
    controller.store.shrink(T0, 1, 2)
    controller.store.isr_changes = (T0, T0, TopicPartition("gone", 3))
    controller.run(controller.term.isr_changes.process_notifications())
    assert controller.context.states[T0].isr == (1, 2)
    assert set(controller.metadata()) == {1, 2, 3}
