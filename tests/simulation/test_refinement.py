"""The specification: the allowed steps, and real servers whose every step is one of its actions.

Forbidden steps, with the guard that each violates, are in `tests.histories.zab.specification`.
"""

from __future__ import annotations

import pytest

from harness.checkers import ALL, Refinement
from harness.checkers.specification import Action
from harness.draw import script_from_seed
from harness.faults import Script
from harness.mutants.detection_latency import detection_latency
from harness.mutants.table import BY_NAME
from harness.worlds.cores.world import world_of
from tests.histories.zab import EXAMPLES, Scenario
from tests.histories.zab.scenario import ONE, THREE, TWO, batch
from zab.core.zxid import NOTHING, Epoch


def test_a_transaction_from_the_first_vote_to_the_machines() -> None:
    s = Scenario(Refinement)
    s.establishes_epoch()
    first = batch(1, 1)
    s.logs(first, THREE, ONE, TWO)
    s.acks(ONE, THREE, first.last)
    s.commits(THREE, first.last)
    for sid in (ONE, TWO):
        s.judge.committed(sid, first.last, False)
        s.judge.applied(sid, first)
        s.judge.serves(sid)
    refinement = s.judge.checkers[0]
    assert isinstance(refinement, Refinement)
    assert refinement.state.leaderships[Epoch(1)].acked == {ONE: first.last, TWO: NOTHING}


def test_every_step_that_can_be_refused_is_refused_in_a_story() -> None:
    always = {Action.START, Action.SEEK, Action.CRASH}
    assert {case.step for case in EXAMPLES.values() if case.step is not None} == set(Action) - always


@pytest.mark.parametrize("machine", ["list", "store"])
def test_all_steps_of_real_servers_are_actions(machine: str) -> None:
    seen: set[int] = set()
    for seed in range(40):
        if seen == set(Action):
            break
        world = world_of(script_from_seed(seed, machine=machine))
        assert world.run().valid
        refinement = next(checker for checker in world.judge.checkers if isinstance(checker, Refinement))
        assert refinement.steps > 200
        seen |= refinement.actions()
    assert seen == set(Action)


def test_it_runs_beside_every_run() -> None:
    assert Refinement in ALL
    world = world_of(Script(1))
    assert any(isinstance(checker, Refinement) for checker in world.judge.checkers)


def test_the_specification_notices_an_early_epoch_before_any_promise_is_broken() -> None:
    found = detection_latency(BY_NAME["M05"], seconds=20.0)
    assert found.refinement is not None
    assert found.invariants is None or found.refinement < found.invariants
