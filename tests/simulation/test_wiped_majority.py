"""A survivor beside a majority with empty disks keeps its history until an operator decides, in any order of events."""

from __future__ import annotations

import pytest

from harness.mutants.edit import Mutant, mutant, planted
from tests.simulation.wiped_majority import WipedWorld

SEEDS = 80
ELECTION = "zab.core.leader_election:LeaderElection"
HANDSHAKE, LEADER, LEARNER, PLAN = (
    "zab.core.leader.learner_handshake:LearnerHandshake",
    "zab.core.leader.leader:Leader",
    "zab.core.learner.learner_synchronization:LearnerSynchronization",
    "zab.core.sync_plan:plan",
)


def test_survivors_keep_what_was_committed_and_all_serve_one_history_after_a_decision() -> None:
    worlds = [WipedWorld(seed) for seed in range(SEEDS)]
    for world in worlds:
        violation = world.play()
        assert violation is None, f"seed {world.script.seed}: {violation}"
    assert sum(world.vetoes > 0 for world in worlds) > SEEDS // 3
    for gives_up in (False, True):
        assert sum(world.acted > 0 and world.gives_up is gives_up for world in worlds) > 5


BUGS = (
    mutant(
        "veto-obeys-truncation",
        "a survivor truncates what was committed",
        (f"{LEARNER}._on_trunc", "if common < log_state.known:", "if False:"),
        ("zab.core.log_state:LogState.truncate", "if zxid < self.committed:", "if False:"),
    ),
    mutant(
        "history-given-up-unasked",
        "a survivor gives its history up at once",
        (f"{LEARNER}._refuse", "if not log_state.settings.veto_lost_history:", "if True:"),
    ),
    mutant(
        "veto-without-need",
        "a learner vetoes a leader that lacks only what was not committed",
        (f"{LEARNER}._on_trunc", "if common < log_state.known:", "if common < log_state.history.last:"),
    ),
    mutant(
        "epoch-of-two-leaders-shared",
        "transactions under the number of the leader's epoch count as its own",
        (
            f"{HANDSHAKE}._synchronize",
            "foreign = last != UNKNOWN and epoch_of(last) == epoch and sid not in self._given",
            "foreign = False",
        ),
    ),
    mutant(
        "no-truncation-before-a-snapshot",
        "a leader that sends a snapshot does not say what the two histories have in common",
        (
            f"{HANDSHAKE}._synchronize",
            "if how.cut is not None:",
            "if how.cut is not None and how.form is not Form.SNAP:",
        ),
    ),
    mutant(
        "no-digest-behind-the-log",
        "a leader does not compare the contents where its memory begins",
        (f"{HANDSHAKE}._synchronize", "if digest is None and later is not None:", "if False:"),
    ),
    mutant(
        "newer-membership-not-compared",
        "a leader refuses a survivor with a newer membership before the histories are compared",
        (
            f"{LEADER}._on_follower_info",
            "if membership > version and not (phase.decided",
            "if membership > version and not (False",
        ),
    ),
    mutant(
        "membership-outlives-history",
        "a survivor that has given up its history keeps the membership that the leader lacks",
        (f"{LEARNER}._on_new_leader", "if lacks_membership:", "if False:"),
    ),
    mutant(
        "vetoed-leader-tried-at-once",
        "a survivor votes for the leader that it has just vetoed",
        (
            f"{ELECTION}._has_vetoed",
            "return self._vetoed.get(leader, now) > now",
            "return False",
        ),
    ),
)


FIRST_SEEDS = {
    "veto-without-need": 3,
    "epoch-of-two-leaders-shared": 5,
    "no-digest-behind-the-log": 6,
    "newer-membership-not-compared": 53,
    "membership-outlives-history": 53,
}
"""The first seed that shows a bug, if not 0. It is tried first. If it shows nothing after a change of the product, the
test tries the others, and only takes longer."""


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_bug_is_noticed(bug: Mutant) -> None:
    with planted(bug.edits):
        assert any(_fails(seed) for seed in (FIRST_SEEDS.get(bug.name, 0), *range(SEEDS)))


def _fails(seed: int) -> bool:
    return WipedWorld(seed).play() is not None
