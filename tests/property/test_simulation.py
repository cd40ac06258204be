"""Scripts drawn by Hypothesis: what is written down is read back, and what is run keeps every promise."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from harness.draw import script_from_seed
from harness.faults import MACHINES, WITH_BROKERS, Script
from harness.scripts import ScriptError, check, describe, dumps, from_json, loads, to_json
from harness.strategies import scripts
from harness.worlds.cores.world import run


@pytest.mark.slow
@settings(max_examples=40)
@given(scripts())
def test_no_script_breaks_a_promise(script: Script) -> None:
    note(describe(script))
    note(dumps(script))
    outcome = run(script)
    assert outcome.valid, f"{outcome.invariant}: {outcome.what}"


@pytest.mark.slow
@settings(max_examples=10)
@given(st.sampled_from(WITH_BROKERS).flatmap(lambda machine: scripts(machine=machine)))
def test_no_script_makes_a_broker_break_a_promise(script: Script) -> None:
    note(describe(script))
    note(dumps(script))
    outcome = run(script)
    assert outcome.valid, f"{outcome.invariant}: {outcome.what}"


@settings(max_examples=50)
@given(st.sampled_from(MACHINES).flatmap(lambda machine: scripts(machine=machine)))
def test_a_script_is_what_it_is_written_down_as(script: Script) -> None:
    check(script)
    assert loads(dumps(script)) == script
    assert from_json(json.loads(json.dumps(to_json(script)))) == script


@given(st.integers(0, 2**40), st.sampled_from((1, 2, 3, 4, 5, 7)))
def test_a_seed_draws_a_script_that_makes_sense(seed: int, voters: int) -> None:
    script = script_from_seed(seed, voters=voters)
    check(script)
    assert loads(dumps(script)) == script
    assert len(describe(script).splitlines()) >= len(script.ops) + len(script.faults) + 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
)


@given(JSON)
def test_what_is_no_script_is_refused(data: object) -> None:
    with pytest.raises(ScriptError):
        from_json(data)


@given(scripts(), st.data())
def test_a_script_with_one_thing_wrong_is_refused_by_its_place(script: Script, data: st.DataObject) -> None:
    made = to_json(script)
    key = data.draw(st.sampled_from(sorted(made)))
    made[key] = data.draw(st.sampled_from(("nonsense", None, 1.5, {"x": 1}, [1])))
    with pytest.raises(ScriptError, match=rf"script\.{key}"):
        from_json(made)
