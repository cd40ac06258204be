"""A run is a function of its script: in another process, under another hash seed, to the last act."""

from __future__ import annotations

import pytest

from harness.draw import script_from_seed
from harness.worlds.cores.world import run
from tests.simulation.elsewhere import printed

SEEDS = (1, 2, 3, 7, 20)

PROGRAM = """
from harness.draw import script_from_seed
from harness.worlds.cores.world import run
for seed in {seeds}:
    for voters in (3, 5):
        print(run(script_from_seed(seed, voters=voters), trace=True).trace.hash())
"""


def hashes_elsewhere(hash_seed: str) -> list[str]:
    return printed(PROGRAM.format(seeds=SEEDS), hash_seed)


def test_equal_in_other_processes_under_other_hash_seeds() -> None:
    here = []
    for seed in SEEDS:
        for voters in (3, 5):
            trace = run(script_from_seed(seed, voters=voters), trace=True).trace
            assert trace is not None
            here.append(trace.hash())
    assert len(set(here)) == len(here), "different scripts, different runs"
    assert hashes_elsewhere("1") == here
    assert hashes_elsewhere("4242") == here


@pytest.mark.parametrize("seed", SEEDS)
def test_being_watched_changes_nothing(seed: int) -> None:
    script = script_from_seed(seed)
    plain, traced = run(script), run(script, trace=True)
    assert (plain.events, plain.at_ms, plain.counts) == (traced.events, traced.at_ms, traced.counts)


def test_a_seed_draws_the_same_script_always() -> None:
    assert script_from_seed(5, voters=5) == script_from_seed(5, voters=5)
    assert script_from_seed(5, voters=5) != script_from_seed(6, voters=5)
