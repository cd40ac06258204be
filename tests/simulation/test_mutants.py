"""The checkers are checked: with a known bug put back, somebody must object, and soon."""

from __future__ import annotations

import inspect
import time

import pytest

from harness.draw import script_from_seed
from harness.mutants.campaign import hunt
from harness.mutants.edit import Edit, Mutant, Stale, mutant, planted, replaced
from harness.mutants.table import BY_NAME, IMPOSSIBLE, MUTANTS
from harness.watchdog import watchdog
from harness.worlds.cores.world import run
from zab.core import election, node
from zab.core.election import Vote
from zab.core.learning import Learning
from zab.core.zxid import Epoch, ServerId, Zxid

QUICK = (
    "M04",
    "M06a",
    "M06b",
    "M06c",
    "M12",
    "M14",
    "M17",
    "M19",
    "M23",
    "M27",
    "M39",
    "ack-before-durable",
    "barrier-answered-locally",
    "commit-without-quorum",
    "epoch-announced-before-durable",
    "epochs-not-synced",
    "established-without-quorum",
    "half-is-a-quorum",
    "leader-counts-itself-early",
    "leader-stays-without-quorum",
    "newer-history-ignored",
    "promise-before-durable",
    "proposals-only-to-the-synced",
    "snapshot-not-synced",
    "truncate-to-own-commit",
    "saved-when-handed-over",
    "event-behind-the-reply",
    "watches-not-told-again",
    "M35",
    "M37a",
    "multi-half-applied",
    "read-overtakes-write",
    "session-served-where-it-was",
    "sessions-end-early",
    "sessions-never-end",
    "sync-answered-locally",
    "missed-is-not-told",
)
"""Those that fall within a second. `zab-harness mutants` hunts all of them."""


@pytest.mark.parametrize("name", QUICK)
def test_a_bug_that_is_put_back_is_noticed(name: str) -> None:
    verdict = hunt(BY_NAME[name], runs_max=60)
    assert verdict.killed, f"{name} was not noticed in {verdict.runs} runs"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_fits_the_code(mutant: Mutant) -> None:
    with planted(mutant.edits):
        pass


def test_possible_and_impossible_are_different_bugs() -> None:
    assert not {name.rstrip("abc") for name in BY_NAME} & IMPOSSIBLE.keys()


# -- planting ------------------------------------------------------------------------------------------


def test_a_planted_bug_is_gone_afterwards() -> None:
    worse, better = Vote(Epoch(1), Zxid(9), ServerId(1)), Vote(Epoch(2), Zxid(1), ServerId(1))
    kept = election.beats
    with planted(BY_NAME["M07"].edits):
        assert election.beats is not kept
    assert election.beats is kept
    assert better > worse


def test_a_handler_is_replaced_where_it_is_looked_up() -> None:
    kept = Learning._HANDLERS.copy()
    with planted(BY_NAME["M05"].edits):
        assert [kind.__name__ for kind in kept if Learning._HANDLERS[kind] is not kept[kind]] == ["LeaderInfo"]
    assert kept == Learning._HANDLERS


def test_a_function_is_replaced_where_it_was_imported() -> None:
    kept = election.is_voter
    with planted([Edit("zab.core.election:is_voter", "return any(", "return not any(")]):
        assert vars(node)["is_voter"] is election.is_voter is not kept
    assert vars(node)["is_voter"] is election.is_voter is kept


@pytest.mark.parametrize(
    "edit",
    [
        Edit("zab.core.election:beats", "no such piece", ""),
        Edit("zab.core.election:nobody", "", ""),
        Edit("zab.core.election:Nobody.method", "", ""),
        Edit("zab.core.election:NOBODY", "", ""),
        Edit("zab.core.learning:Learning._log", "\nself._replica.append(batch)\n", "\npass\n"),
    ],
)
def test_an_edit_that_does_not_fit_is_refused(edit: Edit) -> None:
    if edit.where.endswith("_log"):
        edit = Edit(edit.where, "\nself._replica.extend(batch)\n", "\npass\n")
    with pytest.raises(Stale), planted([edit]):
        raise AssertionError("planted")


def test_blocks_are_found_whatever_their_indentation() -> None:
    source = "def f():\n    if x:\n        a()\n        b()\n    c()\n"
    edit = Edit("", "\n  a()\n  b()\n", "\n b()\n if y:\n     a()\n")
    assert replaced(source, edit) == "def f():\n    if x:\n        b()\n        if y:\n            a()\n    c()\n"


def test_two_edits_of_one_function_add_up() -> None:
    where = "zab.core.election:is_voter"
    twice = mutant(
        "twice", "", (where, "return any(", "return (any("), (where, "for view in views)", "for view in views))")
    )
    with planted(twice.edits):
        pass


def test_a_core_that_goes_round_and_round_is_noticed() -> None:
    stuck = mutant(
        "stuck", "", ("zab.core.leading:Leading._count", "if reached <= replica.committed or", "if False and")
    )
    with planted(stuck.edits), watchdog(0.3):
        outcome = run(script_from_seed(1))
    assert outcome.promise == "no server falls over"


def test_shipped_code_knows_nothing_of_mutants() -> None:
    assert "mutant" not in inspect.getsource(node)


def test_hunting_stops_at_its_budget() -> None:
    healthy = mutant("healthy", "nothing is wrong", ("zab.core.election:is_voter", "return any(", "return any("))
    began = time.process_time()
    verdict = hunt(healthy, seconds=0.05)
    assert not verdict.killed
    assert verdict.runs >= 1
    assert verdict.core_seconds <= time.process_time() - began
