"""The same scripts at Apache ZooKeeper and at ours: no byte that a client sees may differ, except on purpose.

`make differential` runs more scripts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.differential.compare import compare
from tests.differential.differences import DIFFERENCES, Difference, bullets
from tests.differential.draw import drawn
from tests.differential.found import FOUND
from tests.differential.peers import Peers, alone
from tests.differential.script import Ask, Connect, Drop, Say, Script, Together, count, printed
from tests.differential.shrink import shrunk
from tests.integration import apache
from tests.integration.processes import ROOT
from zab.store.operations import Op

SEEDS = 50
MEMORY = Path("/dev/shm")


@pytest.fixture(scope="module")
def peers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peers]:
    with alone(tmp_path_factory.mktemp("peers")) as peers:
        yield peers


@apache.needs_apache
@pytest.mark.slow
def test_nothing_differs(peers: Peers) -> None:
    compared = 0
    for seed in range(SEEDS):
        script = drawn(seed)
        unlike = compare(peers, script)
        assert unlike is None, f"seed {seed}:\n{unlike}"
        compared += count(script)
    assert compared > 3_000


@apache.needs_apache
@pytest.mark.slow
@pytest.mark.parametrize("script", FOUND.values(), ids=FOUND)
def test_nothing_that_differed_once_does_so_again(peers: Peers, script: Script) -> None:
    unlike = compare(peers, script)
    assert unlike is None, f"{unlike}"


@apache.needs_apache
@pytest.mark.slow
@pytest.mark.parametrize("difference", DIFFERENCES, ids=[each.what for each in DIFFERENCES])
def test_deliberate_differences_match_their_description(peers: Peers, difference: Difference) -> None:
    unlike = compare(peers, difference.script, excuses=False)
    peers.equalize()
    assert unlike is not None, "it no longer does: it can be struck from the table"
    assert unlike.theirs is not None
    assert unlike.ours is not None
    assert difference.theirs in unlike.theirs[2]
    assert difference.ours in unlike.ours[2]


# -- of the tool itself --------------------------------------------------------------------------------


def test_page_matches_the_table() -> None:
    page, _, _ = (ROOT / "docs/reference/differences.md").read_text().partition("## Visible to operators")
    assert [line for line in page.splitlines() if line.startswith("- **")] == bullets()


def test_a_script_is_a_function_of_its_seed_and_can_be_read_back() -> None:
    names = {each.__name__: each for each in (Ask, Connect, Drop, Say, Together)}
    for seed in range(20):
        script = drawn(seed)
        assert script == drawn(seed)
        assert eval(printed(script), {"Op": Op, **names}) == script


def test_every_operation_is_drawn() -> None:
    drawn_ops = {
        ask.op
        for seed in range(SEEDS)
        for step in drawn(seed)
        for ask in (step.asks if isinstance(step, Together) else (step,) if isinstance(step, Ask) else ())
    }
    never = {
        Op.CHECK, Op.DELETE_CONTAINER, Op.SASL, Op.ERROR, Op.CREATE_SESSION, Op.ATTACH_SESSION, Op.SET_SECRET,
        Op.NOTIFICATION,
    }  # fmt: skip
    assert set(Op) - never <= drawn_ops


def test_shrinking_keeps_the_necessary_operations() -> None:
    script = drawn(7)
    needed = {step for step in script if isinstance(step, Drop)} | {script[0]}

    def fails(candidate: Script) -> bool:
        return needed <= set(candidate)

    assert set(shrunk(script, fails)) == needed
