"""Mutations of the checkers: each is what its name says, ends with its block, and is killed by the corpus."""

from __future__ import annotations

import re
from collections import Counter
from importlib import import_module
from itertools import islice

import pytest

from harness.checkers.store import check
from tests.checker_mutation import campaign
from tests.checker_mutation.__main__ import main
from tests.checker_mutation.campaign import drawn, run, run_all
from tests.checker_mutation.cases import TARGETS, Case, case, corpus
from tests.checker_mutation.equivalent import EQUIVALENT
from tests.checker_mutation.mutations import applied, mutations
from tests.histories.store import EXAMPLES

SAMPLE = 15
ORDER = import_module("harness.checkers.store.order")


def test_mutation_ends_with_its_block() -> None:
    history = EXAMPLES["second_is_answered_first"].history
    silent = next(each for each in mutations(ORDER) if each.key == "checkers.store.order replies: returns at once")
    assert not check(history).valid
    with applied(silent, ORDER):
        assert check(history).valid
    assert not check(history).valid


def test_rules_mutate_every_part_of_a_function() -> None:
    found = {each.what for each in mutations(ORDER) if each.function == "never_back"}
    assert found >= {
        "returns at once",
        "`zxid <= largest` for `zxid < largest`",
        "`zxid >= largest` for `zxid < largest`",
        "never `zxid <= 0`",
        "1 for 0 in `zxid <= 0`",
        "without `continue`",
        "without `yield by_event(NEVER_BACK, event, what, shown, event, zxid=z`",
    }


def test_checker_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "STUCK_S", 0.2)
    mutation = next(iter(mutations(ORDER)))
    kept = ORDER.replies.__code__

    def endless() -> object:
        while ORDER.replies.__code__ is not kept:
            pass
        return 0

    assert mutation.function == "replies"
    uses = frozenset({(ORDER.__file__ or "", "replies")})
    stuck = Case("endless", endless, 0, uses, calls=1, seconds=0.0)
    assert run(mutation, [stuck]).killed_by == "endless"
    assert ORDER.replies.__code__ is kept


def test_case_records_the_functions_that_it_calls() -> None:
    reads = case("example", lambda: check(EXAMPLES["second_is_answered_first"].history).valid)
    assert reads.expected is False
    assert (ORDER.__file__, "replies") in reads.uses
    assert not any(name == "wrong_with_order" for _, name in reads.uses)


@pytest.mark.parametrize("target", TARGETS)
def test_corpus_kills_a_sample_of_mutations(target: str) -> None:
    results = list(run_all(islice(drawn(target, seed=0), SAMPLE), corpus(target), seconds=60))
    survivors = [each.mutation.name for each in results if not each.killed_by and each.mutation.key not in EQUIVALENT]
    assert len(results) == SAMPLE
    assert len(survivors) <= SAMPLE // 10, survivors


def test_command_counts_mutations(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["oracle", "--seconds", "1"])
    printed = capsys.readouterr().out
    (row,) = re.findall(r"^\| oracle \| (\d+) \| (\d+) \| (\d+) \| ([\d.]+)% \|", printed, re.MULTILINE)
    tried, killed, equivalent, score = int(row[0]), int(row[1]), int(row[2]), float(row[3])
    assert killed > 0
    assert tried == killed + equivalent + printed.count("SURVIVED")
    assert status == (score < 95)


def test_command_names_the_groups(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["spelling"])
    assert "there is no group spelling: use zab, spec, oracle" in capsys.readouterr().err


def test_every_equivalent_mutation_exists() -> None:
    named: dict[str, set[str]] = {}
    for key in EQUIVALENT:
        module, function = key.partition(": ")[0].split()
        named.setdefault(f"harness.{module}", set()).add(function)
    assert named.keys() <= {name for names in TARGETS.values() for name in names}
    keys = Counter(each.key for name, of in named.items() for each in mutations(import_module(name), of))
    assert [key for key in EQUIVALENT if keys[key] != 1] == []
