"""Histories of brokers' clients: handwritten cases, random legal histories, and corrupted ones."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from attrs import asdict, evolve, fields

from harness.checkers.records import (
    Broken,
    History,
    HistoryError,
    dumps,
    groups,
    judge,
    loads,
    lost,
    members,
    polls,
    values,
)
from harness.checkers.records.case import Case, prepared
from harness.checkers.records.history import EVENTS, Acked, Event, Polled, Record, Sent, Span
from harness.checkers.records.judge import CHECKERS, Counts, order_of
from harness.checkers.records.verify import proves
from harness.cli import main
from tests.histories.records.corrupt import CORRUPTIONS, Corruption, invented_position
from tests.histories.records.examples import EXAMPLES, Example
from tests.histories.records.legal import legal
from tests.histories.records.random_history import random_history
from tests.histories.records.refused import REFUSED

OF_GROUPS = (groups.positions, members.owned, members.passed, members.onwards)
"""The checkers that the order of a log does not cover."""
OF_LOGS = CORRUPTIONS[: CORRUPTIONS.index(invented_position)]
SEEDS = 60
ENOUGH = 6
RANDOM_HISTORIES = 40_000


@pytest.mark.parametrize("case", EXAMPLES.values(), ids=EXAMPLES)
def test_case_has_the_expected_verdict(case: Example) -> None:
    verdict = judge(case.history)
    if not case.violated:
        assert verdict.valid, str(verdict)
    else:
        assert case.violated in [each.invariant for each in verdict.broken], str(verdict)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_history_of_a_correct_broker_is_valid(seed: int) -> None:
    verdict = judge(legal(seed, steps=150))
    assert verdict.valid, str(verdict)
    assert verdict.orders


@pytest.mark.parametrize("seed", range(SEEDS // 3))
def test_allowed_losses_are_valid(seed: int) -> None:
    verdict = judge(legal(seed, steps=150, lossy=True))
    assert verdict.valid, str(verdict)


def test_legal_histories_contain_all_kinds_of_events() -> None:
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        history = legal(seed, steps=150, lossy=seed % 2 > 0)
        counts = judge(history).counts
        seen.update({name: value for name, value in asdict(counts).items() if value})
        seen.update(type(event).__name__ for event in history.events)
        seen["complete"] += history.complete
        seen["not complete"] += not history.complete
    assert set(seen) > {*(kind.__name__ for kind in EVENTS), *(each.name for each in fields(Counts)), "complete"}


# -- corruption ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("corruption", CORRUPTIONS, ids=lambda corruption: corruption.__name__)
def test_corrupted_history_is_invalid(corruption: Corruption) -> None:
    corrupted = 0
    for seed in range(SEEDS):
        made = corruption(Random(seed), legal(seed, steps=100))
        if made is not None:
            assert not judge(made).valid, f"{corruption.__name__} in the history of seed {seed}"
            corrupted += 1
    assert corrupted >= ENOUGH


def every_finding() -> Iterator[tuple[History, Broken]]:
    for case in EXAMPLES.values():
        yield from ((case.history, each) for each in judge(case.history).broken)
    for corruption in CORRUPTIONS:
        for seed in range(ENOUGH):
            made = corruption(Random(seed), legal(seed))
            if made is not None:
                yield from ((made, each) for each in judge(made).broken)


def test_evidence_is_sufficient_and_minimal() -> None:
    findings = 0
    for history, finding in every_finding():
        evidence = finding.evidence
        assert finding.invariant in invariants_broken(evidence, history), str(finding)
        for number in range(len(evidence)):
            less = (*evidence[:number], *evidence[number + 1 :])
            assert finding.invariant not in invariants_broken(less, history), f"{finding}, without {evidence[number]}"
        findings += 1
    assert findings > 100


def invariants_broken(events: tuple[Event, ...], history: History) -> list[str]:
    try:
        return [each.invariant for each in judge(History(events, history.complete)).broken]
    except HistoryError:
        return []


# -- independent verification ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_verifier_agrees_with_checkers_on_corrupted_histories(seed: int) -> None:
    """Histories with several corruptions, or none: the order proves exactly the valid ones."""
    chance = Random(seed)
    history = legal(seed, steps=40, lossy=seed % 3 == 0)
    for _ in range(chance.randint(0, 2)):
        history = chance.choice(OF_LOGS)(chance, history) or history
    history = evolve(history, events=tuple(event for event in history.events if chance.random() < 0.995))
    try:
        case = prepared(history)
    except HistoryError:
        return
    broken = broken_in_logs(case)
    assert (proves(order_of(case), history) is None) is not bool(broken), broken


def broken_in_logs(case: Case) -> list[Broken]:
    return [each for check in CHECKERS for each in check(case) if check not in OF_GROUPS]


@pytest.mark.parametrize("first", range(0, RANDOM_HISTORIES, RANDOM_HISTORIES // 20))
def test_verifier_agrees_with_checkers_on_random_histories(first: int) -> None:
    for seed in range(first, first + RANDOM_HISTORIES // 20):
        history = random_history(seed)
        case = prepared(history)
        broken, wrong = broken_in_logs(case), proves(order_of(case), history)
        assert bool(broken) is (wrong is not None), f"random_history({seed}): {wrong}; {broken}"


def test_random_histories_are_legal_or_violate_each_invariant_of_logs() -> None:
    verdicts = [judge(random_history(seed)) for seed in range(1_000)]
    assert sum(verdict.valid for verdict in verdicts) > 100
    invariants = {each.invariant for verdict in verdicts for each in verdict.broken}
    of_logs = (lost, polls, values)
    assert invariants == {
        held for each in of_logs for name, held in vars(each).items() if name.isupper() and isinstance(held, str)
    }


# -- invalid histories -----------------------------------------------------------------------------------


def history_of(*events: Event) -> History:
    return History(events)


@pytest.mark.parametrize(("wrong", "history"), REFUSED.items(), ids=REFUSED)
def test_contradictory_history_is_refused(wrong: str, history: History) -> None:
    with pytest.raises(HistoryError) as refused:
        judge(history)
    assert str(refused.value) == wrong


@pytest.mark.parametrize("seed", range(10))
def test_history_round_trips_through_json(seed: int) -> None:
    history = legal(seed)
    assert loads(dumps(history)) == history


HEAD = '{"records": 1, "events": 1, "complete": false}\n'


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "line 1, column 1: no JSON: Expecting value"),
        ("[]", "line 1: expected an object, not list"),
        ('{"records": 2}', "line 1, records: expected version 1, not 2"),
        ('{"records": 1, "events": 0}', "line 1, complete: expected true or false, not None"),
        (
            '{"records": 1, "events": 1, "complete": true}',
            "line 1, events: the header announces 1, but the history has 0",
        ),
        (HEAD + '{"kind": "Guess"}', "line 2, kind: 'Guess' is none of Sent, Acked, "),
        (HEAD + '{"kind": "Ended", "at": 1}', "line 2, client: missing"),
        (HEAD + '{"kind": "Ended", "at": 1, "client": 1, "who": 1}', "line 2, who: unknown; Ended has at, client"),
        (HEAD + '{"kind": "Ended", "at": "1", "client": 1}', "line 2, at: expected int, not '1'"),
        (HEAD + '{"kind": "Ended", "at": 1, "client": 9223372036854775808}', "line 2, client: expected a number of 64"),
        (HEAD + '{"kind": "Acked", "at": 1, "client": 1, "call": 1, "offset": -5}', "line 2: -5 is not a legal offset"),
        (HEAD + '{"kind": "Ended", "at": true, "client": 1}', "line 2, at: expected int, not True"),
        (
            HEAD + '{"kind": "Polled", "at": 1, "client": 1, "asked": 1, "records": 1}',
            "line 2, records: expected a list",
        ),
        (
            HEAD + '{"kind": "Polled", "at": 1, "client": 1, "asked": 1, "records": [["t-0", 1]]}',
            "line 2, records[0]: expected partition, offset, value, not ['t-0', 1]",
        ),
        (
            HEAD + '{"kind": "Polled", "at": 1, "client": 1, "asked": 1, "spans": [["t-0", 1, null]]}',
            "line 2, spans[0].end: expected int, not None",
        ),
    ],
)
def test_invalid_file_is_refused_with_the_place(text: str, wrong: str) -> None:
    with pytest.raises(HistoryError) as refused:
        loads(text)
    assert str(refused.value).startswith(wrong)


# -- counts ----------------------------------------------------------------------------------------------


def test_largest_lag_of_a_consumer() -> None:
    history = history_of(
        Sent(0, 1, 1, "t-0", "a"),
        Sent(0, 1, 2, "t-0", "b"),
        Acked(10, 1, 2, 1),
        Acked(50, 1, 1, 0),
        Polled(100, 2, 90),
        Polled(210, 2, 200, spans=(Span("t-0", 0, 0),)),
        Polled(310, 2, 300, spans=(Span("t-0", 0, 0),), records=()),
        Polled(410, 2, 400, records=(Record("t-0", 0, "a"), Record("t-0", 1, "b"))),
    )
    assert judge(history).counts.lag_us_max == 290


# -- the command -----------------------------------------------------------------------------------------


def checked(tmp_path: Path, history: History, *more: str) -> int:
    file = tmp_path / "history"
    file.write_text(dumps(history))
    return main(["check", str(file), *more])


def test_check_command_prints_the_violation_and_its_evidence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = EXAMPLES["acknowledged_value_is_skipped"].history
    assert checked(tmp_path, history) == 1
    out = capsys.readouterr().out
    assert (
        "BROKEN  no acknowledged record disappears: 'b' was acknowledged in t-0 at 1, but client 2 read from 0 to 3"
        in out
    )
    assert '{"kind": "Acked", "at": 40, "client": 1, "call": 2, "offset": 1}' in out
    assert checked(tmp_path, history, "--json") == 1
    printed = json.loads(capsys.readouterr().out)
    assert (printed["valid"], printed["invariant"], len(printed["broken"][0]["evidence"])) == (False, lost.KEPT, 3)


def test_check_command_prints_the_order_of_a_legal_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = EXAMPLES["one_offset_in_two_partitions"].history
    assert checked(tmp_path, history, "--order") == 0
    out = capsys.readouterr().out
    assert out.startswith("legal: 2 sent, 2 acknowledged, 0 refused, 0 unknown")
    assert "t-1:\n  0 b\n" in out
    assert checked(tmp_path, history, "--json") == 0
    assert json.loads(capsys.readouterr().out)["orders"] == {"t-0": [[0, "a"]], "t-1": [[0, "b"]]}


def test_check_command_refuses_an_invalid_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert checked(tmp_path, history_of(Acked(1, 1, 1))) == 2
    assert "history: line 2: client 1 has no open call 1" in capsys.readouterr().err
