"""Client histories of brokers: stories by hand, histories made by chance, and lies told in them."""

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
from tests.histories.records.legal import legal
from tests.histories.records.refused import REFUSED
from tests.histories.records.spoil import SPOILERS, Spoiler, invented_position
from tests.histories.records.stories import STORIES, Story
from tests.histories.records.wild import wild

OF_GROUPS = (groups.positions, members.owned, members.passed, members.onwards)
"""What the order of a log does not tell."""
OF_LOGS = SPOILERS[: SPOILERS.index(invented_position)]
SEEDS = 60
ENOUGH = 6
WILD = 40_000


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_a_story_is_judged_as_it_should_be(story: Story) -> None:
    verdict = judge(story.history)
    if not story.broken:
        assert verdict.valid, str(verdict)
    else:
        assert story.broken in [each.invariant for each in verdict.broken], str(verdict)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_history_of_a_correct_broker_is_valid(seed: int) -> None:
    verdict = judge(legal(seed, steps=150))
    assert verdict.valid, str(verdict)
    assert verdict.orders


@pytest.mark.parametrize("seed", range(SEEDS // 3))
def test_what_goes_because_it_may_is_not_missed(seed: int) -> None:
    verdict = judge(legal(seed, steps=150, lossy=True))
    assert verdict.valid, str(verdict)


def test_in_those_histories_everything_happens() -> None:
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        history = legal(seed, steps=150, lossy=seed % 2 > 0)
        counts = judge(history).counts
        seen.update({name: value for name, value in asdict(counts).items() if value})
        seen.update(type(event).__name__ for event in history.events)
        seen["complete"] += history.complete
        seen["not complete"] += not history.complete
    assert set(seen) > {*(kind.__name__ for kind in EVENTS), *(each.name for each in fields(Counts)), "complete"}


# -- lies ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spoiler", SPOILERS, ids=lambda spoiler: spoiler.__name__)
def test_a_lie_is_noticed(spoiler: Spoiler) -> None:
    told = 0
    for seed in range(SEEDS):
        spoilt = spoiler(Random(seed), legal(seed, steps=100))
        if spoilt is not None:
            assert not judge(spoilt).valid, f"{spoiler.__name__} in the history of seed {seed}"
            told += 1
    assert told >= ENOUGH


def every_finding() -> Iterator[tuple[History, Broken]]:
    for story in STORIES.values():
        yield from ((story.history, each) for each in judge(story.history).broken)
    for spoiler in SPOILERS:
        for seed in range(ENOUGH):
            spoilt = spoiler(Random(seed), legal(seed))
            if spoilt is not None:
                yield from ((spoilt, each) for each in judge(spoilt).broken)


def test_what_is_shown_as_evidence_proves_it_and_no_less_would() -> None:
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


# -- by other means --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_what_the_verifier_accepts_is_what_the_checkers_call_legal(seed: int) -> None:
    """Histories in which several things may be wrong, or none: the order proves them exactly if nothing is broken."""
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


@pytest.mark.parametrize("first", range(0, WILD, WILD // 20))
def test_of_no_well_formed_history_do_checkers_and_verifier_say_otherwise(first: int) -> None:
    """Nobody made these so that they are legal, or illegal in some way that is known."""
    for seed in range(first, first + WILD // 20):
        history = wild(seed)
        case = prepared(history)
        broken, wrong = broken_in_logs(case), proves(order_of(case), history)
        assert bool(broken) is (wrong is not None), f"wild({seed}): {wrong}; {broken}"


def test_of_wild_histories_some_are_legal_and_each_promise_about_logs_is_broken_in_some() -> None:
    verdicts = [judge(wild(seed)) for seed in range(1_000)]
    assert sum(verdict.valid for verdict in verdicts) > 100
    promises = {each.invariant for verdict in verdicts for each in verdict.broken}
    of_logs = (lost, polls, values)
    assert promises == {
        held for each in of_logs for name, held in vars(each).items() if name.isupper() and isinstance(held, str)
    }


# -- what is no history ----------------------------------------------------------------------------------


def told(*events: Event) -> History:
    return History(events)


@pytest.mark.parametrize(("wrong", "history"), REFUSED.items(), ids=REFUSED)
def test_a_history_that_contradicts_itself_is_refused(wrong: str, history: History) -> None:
    with pytest.raises(HistoryError) as refused:
        judge(history)
    assert str(refused.value) == wrong


@pytest.mark.parametrize("seed", range(10))
def test_a_history_survives_its_file(seed: int) -> None:
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
        ('{"records": 1, "events": 1, "complete": true}', "line 1, events: it promises 1, and there are 0"),
        (HEAD + '{"kind": "Guess"}', "line 2, kind: 'Guess' is none of Sent, Acked, "),
        (HEAD + '{"kind": "Ended", "at": 1}', "line 2, client: missing"),
        (HEAD + '{"kind": "Ended", "at": 1, "client": 1, "who": 1}', "line 2, who: unknown; Ended has at, client"),
        (HEAD + '{"kind": "Ended", "at": "1", "client": 1}', "line 2, at: expected int, not '1'"),
        (HEAD + '{"kind": "Ended", "at": 1, "client": 9223372036854775808}', "line 2, client: expected a number of 64"),
        (HEAD + '{"kind": "Acked", "at": 1, "client": 1, "call": 1, "offset": -5}', "line 2: there is no offset -5"),
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
def test_what_is_no_history_is_refused_with_the_place(text: str, wrong: str) -> None:
    with pytest.raises(HistoryError) as refused:
        loads(text)
    assert str(refused.value).startswith(wrong)


# -- numbers ---------------------------------------------------------------------------------------------


def test_how_far_a_reader_was_behind() -> None:
    history = told(
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


def test_the_command_names_what_is_broken_and_shows_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = STORIES["an_acknowledged_value_is_jumped"].history
    assert checked(tmp_path, history) == 1
    said = capsys.readouterr().out
    assert (
        "BROKEN  no acknowledged record disappears: 'b' was acknowledged in t-0 at 1; client 2 read from 0 to 3" in said
    )
    assert '{"kind": "Acked", "at": 40, "client": 1, "call": 2, "offset": 1}' in said
    assert checked(tmp_path, history, "--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["valid"], told["invariant"], len(told["broken"][0]["evidence"])) == (False, lost.KEPT, 3)


def test_the_command_shows_the_order_that_proves_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = STORIES["one_offset_in_two_partitions"].history
    assert checked(tmp_path, history, "--order") == 0
    said = capsys.readouterr().out
    assert said.startswith("legal: 2 sent, 2 acknowledged, 0 refused, 0 unknown")
    assert "t-1:\n  0 b\n" in said
    assert checked(tmp_path, history, "--json") == 0
    assert json.loads(capsys.readouterr().out)["orders"] == {"t-0": [[0, "a"]], "t-1": [[0, "b"]]}


def test_the_command_refuses_what_is_no_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert checked(tmp_path, told(Acked(1, 1, 1))) == 2
    assert "history: line 2: client 1 has no open call 1" in capsys.readouterr().err
