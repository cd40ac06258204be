"""Each constant that scripts draw changes something, is changed everywhere, and has its usual value after the run."""

from __future__ import annotations

import ast
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import evolve

import harness
from harness.draw import script_from_seed
from harness.faults import MACHINES, Script
from harness.script.checks import ScriptError
from harness.script.constants import CONSTANTS, Drawn
from harness.script.reading import script as read
from harness.script.writing import describe
from harness.scripts import dumps, loads
from harness.shrink.shrink import shrink
from harness.shrink.trials import Moment
from harness.worlds.cores.in_force import in_force
from harness.worlds.cores.world import simulator_of

ROOT: Final = Path(harness.__file__).parents[1]


def test_every_importer_of_a_constant_is_in_the_table() -> None:
    imported: dict[tuple[str, str], set[str]] = {}
    for package in ("zab", "kraft_controller", "replica", "harness"):
        for file in (ROOT / package).rglob("*.py"):
            module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.ImportFrom) and node.module is not None:
                    for alias in node.names:
                        imported.setdefault((node.module, alias.name), set()).add(module)
    for name, constant in CONSTANTS.items():
        module, _, path = constant.where.partition(":")
        importers = imported.get((module, path.partition(".")[0]), set())
        assert {each for each in importers if used_by_cores(each)} <= set(constant.also), name


def used_by_cores(module: str) -> bool:
    return not module.startswith(("harness.worlds.stack.", "harness.worlds.processes.")) and ".runtime." not in module


@pytest.mark.parametrize("name", CONSTANTS)
def test_constant_is_changed_in_the_block_and_restored_after_it(name: str) -> None:
    before, value = values_of(name), CONSTANTS[name].values[-1]
    with pytest.raises(ZeroDivisionError), in_force([Drawn(name, value)]):
        assert values_of(name) == [value] * len(before)
        raise ZeroDivisionError
    assert values_of(name) == before
    assert not set(CONSTANTS[name].values) & set(before), "a usual value changes nothing"


def values_of(name: str) -> list[int]:
    module, _, path = CONSTANTS[name].where.partition(":")
    top, _, setting = path.partition(".")
    found = [getattr(import_module(place), top) for place in (module, *CONSTANTS[name].also)]
    return [getattr(each, setting) for each in found] if setting else found


@pytest.mark.parametrize("machine", MACHINES)
def test_a_third_of_scripts_draws_constants_of_its_machine(machine: str) -> None:
    scripts = [script_from_seed(seed, machine=machine) for seed in range(300)]
    assert 50 < sum(bool(script.constants) for script in scripts) < 130
    drawn = {each.name for script in scripts for each in script.constants}
    assert drawn == {name for name, constant in CONSTANTS.items() if machine in constant.machines}
    for name in ("init_limit", "sync_limit", "finalize_wait_ms", "notification_ms_min", "dial_retry_ms"):
        assert len({getattr(script.knobs, name) for script in scripts}) > 2, name


# -- scripts with constants ------------------------------------------------------------------------------


def test_constants_are_shown_stored_and_read_again() -> None:
    script = Script(1, constants=(Drawn("window_bytes", 200), Drawn("dial_attempts", 1)))
    text = describe(script)
    assert "constants window_bytes 200 dial_attempts 1" in text
    assert read(text) == loads(dumps(script)) == script
    assert "constants" not in dumps(Script(1)), "scripts without constants keep their form"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("constants dial_attempt 1", "did you mean 'dial_attempts'?"),
        ("constants dial_attempts 1 dial_attempts 2", "given twice"),
        ("constants dial_attempts -1", "-1 is not from 0 to"),
    ],
)
def test_wrong_constants_are_refused(text: str, what: str) -> None:
    with pytest.raises(ScriptError, match=re.escape(what)):
        read(f"seed 1\n{text}")


def test_shrinking_removes_the_constants_that_do_not_matter() -> None:
    needed = Drawn("checkpoint_every", 1)
    script = Script(1, constants=(Drawn("dial_attempts", 1), needed, Drawn("xid_max", 2)))
    shrunk = shrink(script, lambda it: Moment(1) if needed in it.constants else None)
    assert shrunk.script.constants == (needed,)
    assert not shrink(script, lambda it: Moment(1)).script.constants


# -- the effects -----------------------------------------------------------------------------------------

def footprint(script: Script) -> object:
    """Return what a run does: its trace, the calls to its disks, and the sizes of what its servers remember."""
    made = simulator_of(script.machine)
    with in_force(script.constants):
        world: Any = made(script, trace=True)
        outcome = world.run()
    assert outcome.invariant is None, outcome.what
    stores = [server.machine.store for server in world.servers[1:]] if script.machine != "list" else []
    digests = [store.digest for store in stores]
    disks = [server.disk for server in world.servers[1:]]
    if script.machine == "partitions":
        disks += [broker.disk.files for broker in world.brokers.values()]
    return (
        str(outcome.trace and outcome.trace.acts),
        [sorted(disk.counts.items()) for disk in disks],
        [(len(each.changed), len(each._known), list(each.history)) for each in digests],
    )


def scripts_of(machine: str) -> list[Script]:
    made = [script_from_seed(seed, machine=machine, length_ms=1_500, ops=60, faults=12) for seed in range(4)]
    return [evolve(script, constants=()) for script in made]


@cache
def usual(machine: str, place: int) -> object:
    return footprint(scripts_of(machine)[place])


def run_differs(name: str, *companions: Drawn) -> bool:
    machine = CONSTANTS[name].machines[0]
    for place, script in enumerate(scripts_of(machine)):
        without = footprint(evolve(script, constants=companions)) if companions else usual(machine, place)
        for value in CONSTANTS[name].values[:1]:
            if footprint(evolve(script, constants=(*companions, Drawn(name, value)))) != without:
                return True
    return False


@pytest.mark.parametrize("name", CONSTANTS)
def test_constant_changes_a_run(name: str) -> None:
    assert run_differs(name)
