"""Small mistakes made by rule: they are what they say, they go away again, and the bank of histories notices them."""

from __future__ import annotations

import json
from collections import Counter
from importlib import import_module
from itertools import islice
from pathlib import Path

import pytest

from harness.checkers.store import check
from harness.cli import main
from harness.mutants import banks, checkers
from harness.mutants.bank.stories import STORIES
from harness.mutants.banks import TARGETS, bank
from harness.mutants.checkers import drawn, hunt_all
from harness.mutants.equivalent import EQUIVALENT
from harness.mutants.mechanical import made, mistakes

SAMPLE = 15
ORDER = import_module("harness.checkers.store.order")


def test_a_mistake_is_there_within_its_block_only() -> None:
    story = STORIES["the_second_is_answered_first"].history
    silent = next(each for each in mistakes(ORDER) if each.key == "checkers.store.order replies: answers nothing")
    assert not check(story).held
    with made(silent, ORDER):
        assert check(story).held
    assert not check(story).held


def test_the_rules_find_what_can_go_wrong_in_a_function() -> None:
    found = {each.what for each in mistakes(ORDER) if each.function == "never_back"}
    assert found >= {
        "answers nothing",
        "`zxid <= largest` for `zxid < largest`",
        "`zxid >= largest` for `zxid < largest`",
        "never `zxid <= 0`",
        "1 for 0 in `zxid <= 0`",
        "without `continue`",
        "without `yield Broken(NEVER_BACK, what, event.at, session, call, zxid`",
    }


def test_a_checker_that_does_not_end_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkers, "STUCK_S", 0.2)
    mistake = next(iter(mistakes(ORDER)))
    kept = ORDER.replies.__code__

    def endless() -> object:
        while ORDER.replies.__code__ is not kept:
            pass
        return 0

    assert mistake.function == "replies"
    uses = frozenset({(ORDER.__file__ or "", "replies")})
    case = banks.Case("endless", endless, 0, uses, calls=1, seconds=0.0)
    assert checkers.hunt(mistake, [case]).noticed == "endless"
    assert ORDER.replies.__code__ is kept


def test_a_case_knows_what_it_takes() -> None:
    made = banks.case("story", lambda: check(STORIES["the_second_is_answered_first"].history).held)
    assert made.said is False
    assert (ORDER.__file__, "replies") in made.uses
    assert not any(name == "wrong_with_order" for _, name in made.uses)


@pytest.mark.parametrize("target", TARGETS)
def test_the_bank_notices_a_sample_of_mistakes(target: str) -> None:
    results = hunt_all(islice(drawn(target, seed=0), SAMPLE), bank(target), seconds=60)
    open_ = [each.mistake.name for each in results if not each.noticed and each.mistake.key not in EQUIVALENT]
    assert len(results) == SAMPLE
    assert len(open_) <= SAMPLE // 10, open_


def test_the_command_counts_them(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["mutants", "--checkers", "oracle", "--seconds", "1", "--json", "--output", str(tmp_path)]) in (0, 1)
    (counted,) = json.loads(capsys.readouterr().out)
    assert counted["tried"] == counted["noticed"] + counted["equivalent"] + len(counted["missed"])
    assert counted["noticed"] > 0
    assert f"| oracle | {counted['tried']} | {counted['noticed']} |" in (tmp_path / "checkers.md").read_text()
    assert main(["mutants", "--checkers", "spelling"]) == 2


def test_what_is_called_equivalent_is_one_mistake() -> None:
    named = {f"harness.{key.split()[0]}" for key in EQUIVALENT}
    assert named <= {name for names in TARGETS.values() for name in names}
    keys = Counter(each.key for name in named for each in mistakes(import_module(name)))
    assert [key for key in EQUIVALENT if keys[key] != 1] == []
