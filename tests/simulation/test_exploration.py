"""The exploration: what it visits, that its reductions lose nothing, and that it finds planted bugs."""

from __future__ import annotations

import json
from random import Random

import pytest

from harness.cli import main
from harness.exploration.canonical import Moment, Serial, Sid, Walk, renamed
from harness.exploration.model import CRASHES, CUT_OFF, Bounds, Model, Move, State
from harness.exploration.search import Search, replay
from harness.exploration.servers import IDS, Input, ServerStates, Step
from harness.mutants.edit import planted
from harness.mutants.table import BY_NAME

ONE_EPOCH = Bounds(transactions=1, crashes=0, leaders=1)


def walked(model: Model, *kinds: str) -> State:
    """Take the first enabled step of each of these kinds, one after the other."""
    state = model.initial()
    for kind in kinds:
        state = next(move.state for move in model.moves(state) if move.label[0] == kind)
    return state


# -- states --------------------------------------------------------------------------------------------


def test_key_is_relative_to_clock_and_tickets() -> None:
    early = Walk({}, now=5, ticket=1).key({"due": Moment(7), "write": Serial(2)})
    late = Walk({}, now=50, ticket=11).key({"due": Moment(52), "write": Serial(12)})
    assert early == late != Walk({}, now=50, ticket=11).key({"due": Moment(53), "write": Serial(12)})


def test_times_and_tickets_keep_their_types_through_arithmetic() -> None:
    assert type(Moment(1) + 2) is type(2 + Moment(1)) is type(Moment(3) - 1) is Moment
    assert type(Moment(3) - Moment(1)) is int
    assert type(Serial(1) + 1) is Serial


def test_renaming_changes_ids_and_no_other_integer() -> None:
    key = Walk({}).key({Sid(1): 1, Sid(2): [Sid(1), 2]})
    assert renamed(key, {1: Sid(3), 2: Sid(1)}) == frozenset({(3, 1), (1, (3, 2))})


def test_step_of_a_server_runs_once() -> None:
    servers = ServerStates(oracle=True)
    first = servers.step(servers.initial[0], ("begin",))
    assert servers.step(servers.initial[0], ("begin",)) is first
    assert servers.steps == 1


def test_states_of_renamed_servers_are_equal_if_elections_are_free() -> None:
    model = Model(ONE_EPOCH)
    led = [move.state for move in model.moves(model.initial()) if move.label[0] == "leads"]
    assert len(led) == len(IDS)
    assert len({model.fingerprint(state) for state in led}) == 1


def test_ids_count_if_servers_elect_by_votes() -> None:
    model = Model(Bounds(crashes=1), oracle=False)
    crashed = [move.state for move in model.moves(model.initial()) if move.label[0] == "crashes"]
    assert len({model.fingerprint(state) for state in crashed}) == len(IDS)


def test_crash_loses_what_is_not_durable_and_restart_reads_the_disk() -> None:
    model = Model(Bounds(crashes=1, leaders=1))
    state = walked(model, "leads", "follows", "receives from", "receives from", "receives from")
    assert "promised 1" in model.servers.summary(state[0])
    lost = next(move.state for move in model.moves(state) if move.label[:2] == ("crashes", 0))
    assert lost[CRASHES] == 1
    assert model.servers.summary(lost[0]) == "down, disk to 0/0, promised 0"
    kept = next(move.state for move in model.moves(state) if move.label[:2] == ("completes a write", 0))
    kept = next(move.state for move in model.moves(kept) if move.label[:2] == ("crashes", 0))
    assert model.servers.summary(kept[0]) == "down, disk to 0/0, promised 1"
    again = next(move.state for move in model.moves(kept) if move.label[0] == "restarts")
    assert "LOOKING election, epoch 0, promised 1" in model.servers.summary(again[0])


def test_cut_off_server_cannot_be_followed_until_it_is_healed() -> None:
    model = Model(Bounds(crashes=0, cuts=1, leaders=1))
    led = next(move.state for move in model.moves(model.initial()) if move.label[:2] == ("leads", 0))
    cut = next(move.state for move in model.moves(led) if move.label[:2] == ("is cut off", 0))
    assert cut[CUT_OFF] == 1
    assert not any(move.label[0] == "follows" for move in model.moves(cut))
    healed = next(move.state for move in model.moves(cut) if move.label[0] == "is healed")
    assert any(move.label[0] == "follows" for move in model.moves(healed))


@pytest.mark.parametrize("seed", range(4))
def test_stored_states_behave_like_servers_that_never_were_stored(seed: int) -> None:
    """Take a random path through states that were reached in other ways, and each server's inputs again on its own."""
    model = Model(Bounds(transactions=2, crashes=2, cuts=1, leaders=3, stalls=1))
    shared, alone, random = model.servers, ServerStates(oracle=True), Random(seed)
    calls: list[tuple[int, Input]] = []
    real_step = shared.step

    def step(state: int, given: Input) -> Step:
        calls.append((state, given))
        return real_step(state, given)

    shared.step = step  # type: ignore[method-assign]
    state = model.initial()
    own = [alone.step(server, ("begin",)).state for server in alone.initial]
    steps = 0
    while steps < 120:
        taken: list[tuple[Move, Input | None]] = []
        for move in model.moves(state):
            taken.append((move, calls[-1][1] if calls else None))
            calls.clear()
        if not taken:
            break
        move, given = random.choice(taken)
        place, after = move.label[1], move.state
        if given is not None:
            if given[0] == "receive":
                given = ("receive", given[1], alone.messages.of(shared.messages.values[given[2]]))
            own[place] = alone.step(own[place], given).state
            assert alone.keys.values[own[place]] == shared.keys.values[after[place]]
        state, steps = after, steps + 1
    assert steps > 20


# -- searches ------------------------------------------------------------------------------------------


def test_one_epoch_is_exhausted_and_reduction_reaches_the_same_terminal_states() -> None:
    reduced, whole = (Search(Model(ONE_EPOCH, reduced=reduced)) for reduced in (True, False))
    for search in (reduced, whole):
        found = search.run()
        assert found.exhausted
        assert found.violation is None
        assert found.progress.depth > 30
    assert reduced.progress.states < whole.progress.states * 2 / 3
    assert reduced.progress.terminal == whole.progress.terminal > 1
    assert reduced.terminals == whole.terminals


@pytest.mark.parametrize(
    ("bounds", "oracle"),
    [
        (Bounds(transactions=2, crashes=2, cuts=1, leaders=3, stalls=1), True),
        (Bounds(transactions=1, crashes=1, leaders=0), False),
    ],
)
def test_bounded_search_stops_and_reports_that_it_is_not_exhausted(bounds: Bounds, oracle: bool) -> None:
    reports: list[int] = []
    search = Search(Model(bounds, oracle=oracle), states_max=2_000, report=lambda each: reports.append(each.states))
    found = search.run()
    assert found.violation is None
    assert not found.exhausted
    assert found.progress.states >= 2_000
    assert found.progress.frontier > 0


@pytest.mark.parametrize(
    ("name", "invariant", "shortest", "longest", "bounds"),
    [
        ("M01a", "one leader per epoch", 18, 22, Bounds(transactions=0, crashes=1, leaders=2)),
        ("M06b", "durable before acknowledged", 9, 13, ONE_EPOCH),
        ("ack-before-durable", "durable before acknowledged", 15, 19, ONE_EPOCH),
        ("commit-without-quorum", "durable on a quorum", 17, 21, ONE_EPOCH),
        ("leader-counts-itself-early", "durable on a quorum", 18, 22, ONE_EPOCH),
        ("up-to-date-with-uncommitted", "serving servers are current", 27, 33, ONE_EPOCH),
        ("M27", "applied only when committed and durable", 30, 36, ONE_EPOCH),
        ("M29", "serving servers are current", 34, 40, ONE_EPOCH),
    ],
)
def test_planted_bug_is_found_by_a_short_counterexample(
    name: str, invariant: str, shortest: int, longest: int, bounds: Bounds
) -> None:
    with planted(BY_NAME[name].edits):
        model = Model(bounds)
        found = Search(model).run()
        assert found.violation is not None
        assert found.violation.invariant == invariant
        assert shortest <= len(found.steps) <= longest
        assert tuple(replay(model, found.labels)) == found.steps


def test_counterexample_is_as_short_without_reduction() -> None:
    with planted(BY_NAME["ack-before-durable"].edits):
        lengths = {len(Search(Model(ONE_EPOCH, reduced=reduced)).run().steps) for reduced in (True, False)}
    assert len(lengths) == 1


# -- the command ---------------------------------------------------------------------------------------

SMALL = ("explore", "--crashes", "0", "--leaders", "1")


def test_command_reports_an_exhausted_search(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "--transactions", "0"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("valid: every state within the bounds was visited\n")
    assert "transitions, depth" in printed


def test_command_prints_a_counterexample_as_a_numbered_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "--mutant", "commit-without-quorum"]) == 1
    lines = capsys.readouterr().out.splitlines()
    count = next(place for place, line in enumerate(lines) if line.startswith("VIOLATED"))
    assert [line[:6] for line in lines[:count]] == [f"{number:>4}. " for number in range(1, count + 1)]
    assert lines[0].startswith("   1. server 1 leads  [LEADING discovery")
    assert any("server 1 proposes" in line for line in lines[:count])
    assert lines[count].startswith(f"VIOLATED after {count} steps: durable on a quorum: ")


def test_command_stops_in_time_and_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "--crashes", "2", "--cuts", "1", "--seconds", "2.5", "--json"]) == 0
    captured = capsys.readouterr()
    result = json.loads(captured.out)
    assert result["valid"]
    assert not result["exhausted"]
    assert 2.5 <= result["seconds"] < 10
    assert result["bounds"]["crashes"] == 2
    assert "to expand" in captured.err
