"""When the controller hears of ISRs that leaders have changed."""

from __future__ import annotations

from kraft_controller.core.names import TopicPartition
from replica.core.notices import Notices

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_it_hears_when_nothing_has_changed_for_a_while() -> None:
    notices = Notices(quiet_ms=5_000, late_ms=60_000)
    notices.told((), 0)
    assert notices.due(100_000) == ()
    notices.changed(T0, 1_000)
    notices.changed(T1, 4_000)
    assert notices.due(8_999) == ()
    assert notices.due(9_000) == (T0, T1)


def test_it_hears_though_they_change_all_the_time() -> None:
    notices = Notices(quiet_ms=5_000, late_ms=60_000)
    notices.told((), 0)
    for now in range(0, 60_000, 1_000):
        notices.changed(T0, now)
        assert notices.due(now) == ()
    notices.changed(T0, 60_000)
    assert notices.due(60_000) == (T0,)


def test_what_could_not_be_told_is_told_later() -> None:
    notices = Notices(quiet_ms=5_000, late_ms=60_000)
    notices.changed(T0, 0)
    due = notices.due(5_000)
    assert notices.due(6_000) == due
    notices.changed(T1, 6_000)
    notices.told(due, 6_000)
    assert notices.due(11_000) == (T1,)
