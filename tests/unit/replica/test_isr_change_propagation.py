"""When the controller is notified of ISRs that leaders have changed."""

from __future__ import annotations

from kraft_controller.core.names import TopicPartition
from replica.core.isr_change_propagation import IsrChangePropagation

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_controller_is_notified_when_no_isr_has_changed_for_a_while() -> None:
    propagation = IsrChangePropagation(5_000, 60_000)
    propagation.notified({}, 0)
    assert propagation.due(100_000) == {}
    propagation.changed(T0, 1_000)
    propagation.changed(T1, 4_000)
    assert propagation.due(8_999) == {}
    assert list(propagation.due(9_000)) == [T0, T1]


def test_controller_is_notified_though_isrs_change_all_the_time() -> None:
    propagation = IsrChangePropagation(5_000, 60_000)
    propagation.notified({}, 0)
    for now in range(0, 60_000, 1_000):
        propagation.changed(T0, now)
        assert propagation.due(now) == {}
    propagation.changed(T0, 60_000)
    assert list(propagation.due(60_000)) == [T0]


def test_failed_notification_is_repeated() -> None:
    propagation = IsrChangePropagation(5_000, 60_000)
    propagation.changed(T0, 0)
    due = propagation.due(5_000)
    assert propagation.due(6_000) == due
    propagation.changed(T1, 6_000)
    propagation.notified(due, 6_000)
    assert list(propagation.due(11_000)) == [T1]


def test_change_during_a_notification_is_reported_by_the_next_one() -> None:
    propagation = IsrChangePropagation(5_000, 60_000)
    propagation.changed(T0, 0)
    propagation.changed(T1, 0)
    due = propagation.due(5_000)
    propagation.changed(T0, 5_000)
    propagation.notified(due, 5_000)
    assert list(propagation.due(10_000)) == [T0]


def test_failed_notification_is_repeated_with_later_changes() -> None:
    propagation = IsrChangePropagation(5_000, 60_000)
    propagation.changed(T0, 0)
    lost = propagation.due(5_000)
    propagation.changed(T0, 5_000)
    propagation.changed(T1, 5_000)
    again = propagation.due(10_000)
    assert list(again) == [T0, T1]
    propagation.notified(lost, 10_000)
    assert list(propagation.due(15_000)) == [T0, T1], "the lost notification names the first change only"
