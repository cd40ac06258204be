"""A run is a function of its script: in another process, under another hash seed, to the last act."""

from __future__ import annotations

import os
from functools import cache

import pytest

from harness.draw import script_from_seed
from harness.faults import FAULTS, Ask, Connect, Fault, Leave, Op, Reconfigure, Script, Step, Vanish, Write
from harness.worlds.cores.world import run
from tests.simulation.elsewhere import printed

SEEDS = (1, 2, 3, 7, 20)
EACH = 6
"""So many kinds of faults in one of the scripts that have every kind."""

PROGRAM = """
from harness.worlds.cores.world import run
from tests.simulation.test_determinism import scripts
for script in scripts():
    print(run(script, trace=True).trace.hash())
"""


@cache
def scripts() -> tuple[Script, ...]:
    """Drawn ones, with and without clients, and some that have every kind of fault there is between them."""
    drawn = [script_from_seed(seed, voters=(3, 5)[seed % 2]) for seed in SEEDS]
    clients = [script_from_seed(seed, machine="store") for seed in SEEDS[:2]]
    return (*drawn, *clients, *every_kind())


def every_kind() -> list[Script]:
    made = []
    kinds: tuple[type[Fault], ...] = FAULTS
    for number, start in enumerate(range(0, len(kinds), EACH)):
        some = kinds[start : start + EACH]
        again = [*some, *reversed(some)]  # where one leaves nobody to lead, the next one finds nobody
        faults = tuple(kind(at=400 + 280 * place) for place, kind in enumerate(again))
        if number % 2:
            writes = [Write(at) for at in range(300, 3_800, 80)]
            made.append(Script(number, length_ms=4_000, faults=faults, ops=(*writes, Reconfigure(900, "add", 4))))
        else:
            asks = [Ask(at, 1 + at % 3, (Step("create", "/a"), Step("set", "/a"))) for at in range(300, 3_800, 80)]
            connects = [Connect(100, client, client) for client in (1, 2, 3)]
            ops: tuple[Op, ...] = (*connects, *asks, Vanish(1_200, client=1), Leave(3_900, client=2))
            made.append(Script(number, machine="store", length_ms=4_000, faults=faults, ops=ops))
    return made


def test_equal_in_another_process_under_another_hash_seed() -> None:
    outcomes = [run(script, trace=True) for script in scripts()]
    here = [outcome.trace.hash() for outcome in outcomes if outcome.trace is not None]
    assert len(set(here)) == len(outcomes), "different scripts, different runs"
    assert printed(PROGRAM, "4242" if os.environ.get("PYTHONHASHSEED") != "4242" else "1") == here
    struck = {name for outcome in outcomes for name, _ in outcome.counts if name.startswith("hit ")}
    assert {f"hit {kind.__name__}" for kind in FAULTS} - struck == set(), "every kind of fault is among them"


@pytest.mark.parametrize("seed", SEEDS[:3])
def test_being_watched_changes_nothing(seed: int) -> None:
    script = script_from_seed(seed)
    plain, traced = run(script), run(script, trace=True)
    assert (plain.events, plain.at_ms, plain.counts) == (traced.events, traced.at_ms, traced.counts)


def test_a_seed_draws_the_same_script_always() -> None:
    assert script_from_seed(5, voters=5) == script_from_seed(5, voters=5)
    assert script_from_seed(5, voters=5) != script_from_seed(6, voters=5)
