"""Deadlines: set, moved, cleared; none is late, and none is reported twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from replica.core.groups.group_timers import GroupTimer, GroupTimers, TimerKind

NAMES = [GroupTimer("g", TimerKind.SESSION, name) for name in "abc"]
steps = st.lists(
    st.tuples(st.sampled_from(["set", "clear", "pass"]), st.sampled_from(NAMES), st.integers(0, 20)), max_size=60
)


@given(steps)
def test_like_a_dict_that_is_looked_through(moves: list[tuple[str, GroupTimer, int]]) -> None:
    alarms, model, now = GroupTimers(), dict[GroupTimer, int](), 0
    for what, alarm, ms in moves:
        if what == "set":
            alarms.set(alarm, now + ms)
            model[alarm] = now + ms
        elif what == "clear":
            alarms.clear(alarm)
            model.pop(alarm, None)
        else:
            now += ms
            rung = []
            while (one := alarms.pop(now)) is not None:
                rung.append(one)
            over = [each for each, due in model.items() if due <= now]
            assert sorted(rung) == sorted(over)
            for each in over:
                del model[each]
        assert len(alarms) == len(model)
        assert all(each in alarms for each in model)
        assert (alarms.next is None) == (not model)
        if model:
            assert alarms.next is not None
            assert alarms.next <= min(model.values())


def test_a_heartbeat_leaves_nothing_in_the_heap() -> None:
    alarms = GroupTimers()
    for now in range(10_000):
        alarms.set(NAMES[0], now + 1_000)
        assert alarms.pop(now) is None
    assert len(alarms._heap) == 1
