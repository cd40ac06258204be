"""Small mistakes made by rule: they are what they say, they go away again, and the bank of histories notices them."""

from __future__ import annotations

import json
from importlib import import_module
from itertools import islice

import pytest

from harness.checkers.store import check
from harness.cli import main
from harness.mutants import checkers
from harness.mutants.bank.stories import STORIES
from harness.mutants.checkers import BANKS, TARGETS, drawn, hunt_all
from harness.mutants.equivalent import EQUIVALENT
from harness.mutants.mechanical import made, mistakes

SAMPLE = 15
ORDER = import_module("harness.checkers.store.order")


def test_a_mistake_is_there_within_its_block_only() -> None:
    story = STORIES["the_second_is_answered_first"].history
    silent = next(each for each in mistakes(ORDER) if each.key == "order replies: answers nothing")
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
        "1 for 0",
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
    assert checkers.hunt(mistake, [checkers.case("endless", endless)]).noticed == "endless"
    assert ORDER.replies.__code__ is kept


@pytest.mark.parametrize("target", TARGETS)
def test_the_bank_notices_a_sample_of_mistakes(target: str) -> None:
    results = hunt_all(islice(drawn(target, seed=0), SAMPLE), BANKS[target](), seconds=30)
    open_ = [each.mistake.name for each in results if not each.noticed and each.mistake.key not in EQUIVALENT]
    assert len(results) == SAMPLE
    assert len(open_) <= SAMPLE // 5, open_


def test_the_command_counts_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mutants", "--checkers", "store", "--seconds", "1", "--json"]) in (0, 1)
    counted = json.loads(capsys.readouterr().out)
    assert counted["tried"] == counted["noticed"] + counted["equivalent"] + len(counted["missed"])
    assert counted["noticed"] > 0
    assert main(["mutants", "--checkers", "spelling"]) == 2


def test_what_is_called_equivalent_exists() -> None:
    modules = {key.split()[0] for key in EQUIVALENT}
    named = [name for names in TARGETS.values() for name in names if name.rpartition(".")[2] in modules]
    assert not EQUIVALENT.keys() - {each.key for name in named for each in mistakes(import_module(name))}
