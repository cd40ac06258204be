"""The checkers are checked: with a known bug put back, somebody must object, and soon."""

from __future__ import annotations

import inspect
import time

import pytest

from harness.draw import script_from_seed
from harness.mutants.edit import Edit, Stale, mutant, planted, replaced
from harness.mutants.hunt import hunt
from harness.mutants.table import BY_NAME, IMPOSSIBLE
from harness.watchdog import watchdog
from harness.worlds.cores.world import run
from zab.core import leader_election, node
from zab.core.leader_election import Vote
from zab.core.learner.learner_broadcast import LearnerAcknowledged, LearnerBroadcast
from zab.core.learner.learner_discovery import LearnerDiscovery
from zab.core.messages import Propose
from zab.core.zxid import Epoch, ServerId, Zxid

QUICK = {
    "any-version-is-replaced": 32,
    "M04": 0,
    "M06a": 5,
    "M06b": 0,
    "M06c": 2,
    "M12": 15,
    "M14": 10,
    "M17": 0,
    "M19": 0,
    "M23": 0,
    "M27": 0,
    "M39": 10,
    "ack-before-durable": 0,
    "barrier-answered-locally": 2,
    "commit-without-quorum": 0,
    "epoch-announced-before-durable": 0,
    "epochs-not-synced": 2,
    "established-without-quorum": 2,
    "half-is-a-quorum": 0,
    "leader-counts-itself-early": 7,
    "leader-stays-without-quorum": 2,
    "newer-history-ignored": 10,
    "promise-before-durable": 0,
    "proposals-only-to-the-synced": 4,
    "snapshot-not-synced": 16,
    "truncate-to-own-commit": 0,
    "saved-when-handed-over": 0,
    "event-behind-the-reply": 1,
    "watches-not-told-again": 1,
    "links-known-late": 0,
    "M35": 6,
    "M37a": 77,
    "multi-half-applied": 0,
    "read-overtakes-write": 1,
    "session-served-where-it-was": 32,
    "sessions-end-early": 0,
    "sessions-never-end": 40,
    "sync-answered-locally": 62,
    "children-watch-misses-the-end": 24,
    "emptiness-by-the-past": 32,
    "dead-leader-followed": 1,
    "missed-is-not-told": 17,
}
"""Some that fall soon, and the seed at which they do. `zab-harness mutants` hunts all of them, from seed 0 on."""


@pytest.mark.parametrize("name", QUICK)
def test_a_bug_that_is_put_back_is_noticed(name: str) -> None:
    verdict = hunt(BY_NAME[name], runs_max=60, base=QUICK[name])
    assert verdict.killed, f"{name} was not noticed in {verdict.runs} runs"


def test_possible_and_impossible_are_different_bugs() -> None:
    assert not {name.rstrip("abc") for name in BY_NAME} & IMPOSSIBLE.keys()


# -- planting ------------------------------------------------------------------------------------------


def test_a_planted_bug_is_gone_afterwards() -> None:
    worse, better = Vote(Epoch(1), Zxid(9), ServerId(1)), Vote(Epoch(2), Zxid(1), ServerId(1))
    kept = leader_election.beats
    with planted(BY_NAME["M07"].edits):
        assert leader_election.beats is not kept
    assert leader_election.beats is kept
    assert better > worse


def test_a_handler_is_replaced_where_it_is_looked_up() -> None:
    handlers = LearnerDiscovery.HANDLERS
    kept = dict(handlers)
    with planted(BY_NAME["M05"].edits):
        assert [kind.__name__ for kind in kept if handlers[kind] is not kept[kind]] == ["LeaderInfo"]
    assert kept == handlers


def test_an_inherited_handler_is_replaced_where_it_is_looked_up() -> None:
    kept = LearnerBroadcast.HANDLERS[Propose]
    with planted(BY_NAME["ack-before-durable"].edits):
        assert LearnerBroadcast.HANDLERS[Propose] is LearnerAcknowledged.HANDLERS[Propose] is not kept
    assert LearnerBroadcast.HANDLERS[Propose] is LearnerAcknowledged.HANDLERS[Propose] is kept


def test_a_function_is_replaced_where_it_was_imported() -> None:
    kept = leader_election.is_voter
    with planted([Edit("zab.core.leader_election:is_voter", "return any(", "return not any(")]):
        assert vars(node)["is_voter"] is leader_election.is_voter is not kept
    assert vars(node)["is_voter"] is leader_election.is_voter is kept


@pytest.mark.parametrize(
    "edit",
    [
        Edit("zab.core.leader_election:beats", "no such piece", ""),
        Edit("zab.core.leader_election:nobody", "", ""),
        Edit("zab.core.leader_election:Nobody.method", "", ""),
        Edit("zab.core.leader_election:NOBODY", "", ""),
        Edit(
            "zab.core.leader.leader_broadcast:LeaderBroadcast._propose", "\nself._log_state.extend(batch)\n", "\npass\n"
        ),
    ],
)
def test_an_edit_that_does_not_fit_is_refused(edit: Edit) -> None:
    with pytest.raises(Stale), planted([edit]):
        raise AssertionError("planted")


def test_blocks_are_found_whatever_their_indentation() -> None:
    source = "def f():\n    if x:\n        a()\n        b()\n    c()\n"
    edit = Edit("", "\n  a()\n  b()\n", "\n b()\n if y:\n     a()\n")
    assert replaced(source, edit) == "def f():\n    if x:\n        b()\n        if y:\n            a()\n    c()\n"


def test_two_edits_of_one_function_add_up() -> None:
    where = "zab.core.leader_election:is_voter"
    twice = mutant(
        "twice", "", (where, "return any(", "return (any("), (where, "for view in views)", "for view in views))")
    )
    with planted(twice.edits):
        pass


def test_a_core_that_goes_round_and_round_is_noticed() -> None:
    where = "zab.core.leader.leader_broadcast:LeaderBroadcast._count"
    piece = "\ncommits = self._commits\n"
    stuck = mutant("stuck", "", (where, piece, f"{piece}while True:\n    pass\n"))
    with planted(stuck.edits), watchdog(0.3):
        outcome = run(script_from_seed(1))
    assert outcome.invariant == "no server fails unexpectedly"


def test_shipped_code_knows_nothing_of_mutants() -> None:
    assert "mutant" not in inspect.getsource(node)


def test_hunting_stops_at_its_budget() -> None:
    healthy = mutant("healthy", "nothing is wrong", ("zab.core.leader_election:is_voter", "return any(", "return any("))
    began = time.process_time()
    verdict = hunt(healthy, seconds=0.05)
    assert not verdict.killed
    assert verdict.runs >= 1
    assert verdict.core_seconds <= time.process_time() - began
