"""Every fault of processes, settings and clocks does what it says."""

from __future__ import annotations

import pytest

from harness.worlds.cores.clock import BEGINS_MS
from harness.worlds.cores.world import World
from tests.simulation.played import last, leader, played
from zab.core.messages import Commit, NewLeader, State


def test_a_crash() -> None:
    run = played("at 500 ms crash 2 down 150 ms\n")
    assert [(act[1], act[4]) for act in run.did("crashes")] == [(2, "lose")]
    assert 650 <= run.started(2)[1][0] < 660


def test_a_crash_of_all() -> None:
    run = played("at 500 ms crash all down 150 ms\n")
    assert {act[1] for act in run.did("crashes", None, 500, 501)} == {1, 2, 3}


def test_a_crash_between_two_acts() -> None:
    run = played("at 500 ms crash in leader acts 5\n", {490: leader})
    assert [act[1] for act in run.did("crashes")] == [run.seen[490]]
    assert run.hit("CrashIn") == 1


def test_a_leader_between_quorum_ack_and_commit() -> None:
    """What it had counted is committed, although it told nobody."""
    run = played('at 500 ms when leader "quorum acked" crash lose for 300 ms\n', {490: leader})
    old = run.seen[490]
    (moment,) = run.did("comes to", old)
    assert moment[4] == "quorum acked"
    assert run.did("crashes", old)[0][0] == moment[0]
    told = [act[4].zxid for act in run.did("says to", old) if isinstance(act[4], Commit) and act[0] <= moment[0]]
    commits = [
        (act[0], act[4].zxid)
        for act in run.did("says to")
        if isinstance(act[4], Commit) and act[1] != old and act[0] > moment[0]
    ]
    ghost = run.world.ghost
    place = ghost.place[max(told)]
    assert commits, "somebody else leads now"
    assert place + 1 < len(ghost.canon)
    assert ghost.canon[place + 1] >> 32 == max(told) >> 32, "what nobody was told of is of the old epoch, and stays"


def test_a_leader_between_quorum_of_promises_and_its_history() -> None:
    run = played('at 500 ms crash leader\nat 501 ms when anyone "quorum promised" crash for 300 ms\n')
    (moment,) = run.did("comes to")
    assert moment[4] == "quorum promised"
    said = [act for act in run.did("says to", moment[1], 501) if isinstance(act[4], NewLeader) and act[0] <= moment[0]]
    assert not said


@pytest.mark.parametrize(
    ("does", "verb"),
    [("crash all", "crashes"), ("pause", "pauses"), ('"lose disk"', "crashes"), ("cut", "comes to")],
)
def test_an_aimed_fault_does_something_else(does: str, verb: str) -> None:
    does = f'"{does}"' if " " in does and not does.startswith('"') else does
    run = played(f'at 500 ms when anyone "after sending Ack" {does} for 100 ms\n')
    assert run.did(verb, None, 500, 700)


def test_a_pause() -> None:
    run = played("at 500 ms pause 2 for 100 ms\n")
    assert run.did("pauses", 2)
    assert run.did("resumes", 2)
    assert not list(run.did("hears", 2, 500.001, 600))


def test_a_restart_in_good_order_loses_nothing() -> None:
    """What was on its way to the slow disk gets there."""

    def handed_over(world: World) -> int:
        return world.ghost.servers[2].tip

    def lost(what: str) -> list[bool]:
        looks = {at - 1: handed_over for at in range(710, 2_000, 100)}
        faults = "".join(f"at {at + 1} ms {what} 2 down 20 ms\n" for at in looks)
        run = played(f"timing fsync_us_min 15000 fsync_us_max 19000\n{faults}", looks)
        starts = run.started(2)[1:]
        return [last(found) < run.seen[at] for at, (_, found) in zip(looks, starts, strict=True)]

    assert not any(lost("restart"))
    assert any(lost("crash")), "a kill loses what no fsync has covered"


@pytest.mark.parametrize("manner", ["orderly", "kill"])
def test_a_rolling_restart_takes_one_after_the_other(manner: str) -> None:
    def up(world: World) -> int:
        return len(world.running())

    looks = dict.fromkeys(range(501, 1400, 10), up)
    run = played(f"at 500 ms rolling restart {manner} down 50 ms wait 200 ms\n", looks)
    assert [act[1] for act in run.did("crashes")] == [1, 2, 3]
    assert set(run.seen.values()) == {2, 3}


def test_one_server_with_another_setting() -> None:
    def ticks(world: World) -> list[int]:
        return [server.node.settings.tick_ms for server in world.running()]

    run = played("at 500 ms setting 2 tick_ms value 50 for 500 ms\n", {900: ticks, 1_500: ticks})
    assert run.seen == {900: [100, 50, 100], 1_500: [100, 100, 100]}
    assert run.counts["restart"] == 2


# -- clocks --------------------------------------------------------------------------------------------


def behind(world: World) -> int:
    return world.now_ms - world.servers[1].now_ms


@pytest.mark.parametrize(("rate", "late"), [(50, 200), (200, -400), (10, 360)])
def test_a_clock_at_another_rate(rate: int, late: int) -> None:
    text = f"at 500 ms clock drift 1 rate_percent {rate} for 400 ms\n"
    run = played(text, {500: behind, 700: behind, 900: behind, 1_500: behind})
    assert [run.seen[500], run.seen[700], run.seen[900], run.seen[1_500]] == [0, late // 2, late, late]


def test_two_rates_at_once() -> None:
    text = "at 500 ms clock drift 1 rate_percent 50 for 400 ms\nat 500 ms clock drift 1 rate_percent 50 for 200 ms\n"
    assert played(text, {700: behind, 900: behind}).seen == {700: 150, 900: 250}


def test_a_frozen_clock_is_never_due() -> None:
    """Alone for longer than it may follow: with a clock that goes it looks for a leader, with a frozen one it waits."""

    def state(world: World) -> State:
        return world.servers[1].node.state

    text = "timing break_ms_max 5000\nat 500 ms isolate 1 for 900 ms\n"
    freeze = "at 499 ms clock freeze 1 for 890 ms\n"
    going, frozen = played(text, {1_380: state}), played(text + freeze, {1_380: state, 1_385: behind})
    assert going.seen[1_380] is State.LOOKING
    assert frozen.seen[1_380] is State.FOLLOWING
    assert frozen.seen[1_385] == 886


def wrong(world: World) -> int:
    return world.servers[1].clock.wall_ms() - BEGINS_MS - world.now_ms


def test_a_wall_clock_that_is_set() -> None:
    run = played("at 500 ms clock step 1 by -70000\n", {400: wrong, 501: wrong, 2_900: wrong})
    assert run.seen == {400: 0, 501: -70_000, 2_900: -70_000}


def test_a_wall_clock_that_is_wrong_for_a_while() -> None:
    run = played("at 500 ms clock skew 1 by 1.5 s for 100 ms\n", {550: wrong, 601: wrong})
    assert run.seen == {550: 1_500, 601: 0}


@pytest.mark.parametrize("every", [10, 15])
def test_a_wall_clock_that_jumps_forth_and_back(every: int) -> None:
    looks = dict.fromkeys((*range(502, 600, every), 701), wrong)
    run = played(f"at 500 ms clock strobe 1 by 300 every {every} ms for 100 ms\n", looks)
    jumps = [run.seen[at] for at in range(502, 600, every)]
    assert jumps == [300, 0] * (len(jumps) // 2) + [300] * (len(jumps) % 2)
    assert run.seen[701] == 0
