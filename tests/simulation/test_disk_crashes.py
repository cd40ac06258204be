"""Crashes at each call to a disk: healthy runs hold, the crashes cover all kinds of calls, and planted bugs show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain, islice

import pytest
from attrs import evolve

from harness.cli import main
from harness.cli.crash_points import CrashPoint, crashes_at_calls, short_script, targets
from harness.faults import Script
from harness.mutants.edit import planted
from harness.mutants.table import BY_NAME
from harness.outcome import Outcome
from harness.script.names import LOSSES
from harness.worlds import world
from harness.worlds.cores.world import run

SEED = 0


def points(
    machine: str, target: int, *losses: str, seed: int = SEED, length_ms: int = 700, first: int = 1
) -> Iterator[CrashPoint]:
    script = short_script(seed, machine, faults=2, ops=14, length_ms=length_ms)
    return crashes_at_calls(script, target, losses or LOSSES, first)


@pytest.mark.parametrize("machine", ["list", "store"])
def test_healthy_servers_survive_a_crash_at_each_call(machine: str) -> None:
    kinds: Counter[str] = Counter()
    for point in points(machine, 1, "tear"):
        assert point.outcome.valid, f"{point.kind}, call {point.call}: {point.outcome.what}"
        kinds[point.kind] += 1
    assert {"create", "write", "sync", "rename", "sync_dir"} <= kinds.keys()
    assert kinds.total() > 60


def test_healthy_broker_survives_a_loss_of_power_at_each_call() -> None:
    kinds: Counter[str] = Counter()
    for point in points("partitions", 2, "tear", length_ms=500):
        assert point.outcome.valid, f"{point.kind}, call {point.call}: {point.outcome.what}"
        kinds[point.kind] += 1
    assert {"create", "write", "sync", "rename", "sync_dir"} <= kinds.keys()


def test_truncation_of_several_files_may_stop_between_two() -> None:
    """A server that removed some files of its tail before the crash has a beginning of its former history."""
    reached = list(islice(points("list", 3, "keep", first=69), 5))
    assert [point.kind for point in reached] == ["create", "allocate", "write", "sync", "rename"]
    assert all(point.outcome.valid for point in reached)


@pytest.mark.parametrize(
    ("mutant", "machine", "loss", "call"),
    [
        ("epochs-not-synced", "list", "lose", 6),
        ("names-not-synced", "list", "lose", 6),
        ("snapshot-not-synced", "list", "lose", 88),
        ("torn-tail-is-damage", "list", "tear", 75),
        ("M06c", "store", "lose", 33),
        ("flushed-in-name", "partitions", "keep", 6),
    ],
)
def test_planted_bug_shows_at_some_call(mutant: str, machine: str, loss: str, call: int) -> None:
    """`loss` and `call` are where the bug shows now. They come first; if it shows elsewhere, the test takes longer."""
    with planted(BY_NAME[mutant].edits):
        known = islice(points(machine, 1, loss, first=call), 1)
        assert any(not point.outcome.valid for point in chain(known, points(machine, 1)))


def test_script_that_fails_without_a_crash_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    script = short_script(SEED, "list", faults=0, ops=3, length_ms=200)
    failed = evolve(run(script), invariant="a promise", what="what broke it", counts=())

    def run_that_fails(script: Script, *, trace: bool = False) -> Outcome:
        return failed

    monkeypatch.setattr("harness.cli.crash_points.world", lambda name: evolve(world(name), run=run_that_fails))
    [point] = crashes_at_calls(script, 1, ("lose",))
    assert (point.kind, point.call) == ("none", 1)


def test_targets_are_servers_or_brokers() -> None:
    assert list(targets(short_script(1, "list", faults=0, ops=5, length_ms=300))) == [1, 2, 3]
    brokers = short_script(1, "partitions", faults=0, ops=5, length_ms=300)
    assert list(targets(brokers)) == list(range(1, brokers.brokers + 1))


def test_command_prints_the_calls_and_the_failures(capsys: pytest.CaptureFixture[str]) -> None:
    common = ["crash-points", "--target", "1", "--loss", "lose"]
    assert main([*common, "--seconds", "1"]) == 0
    assert "crashes, 0 failed" in capsys.readouterr().out
    assert main([*common, "--mutant", "epochs-not-synced", "--stop-after", "1"]) == 1
    said = capsys.readouterr().out
    assert "VIOLATED a restart finds what was durable" in said
    assert "zab-harness replay --script" in said
    assert "1 failed; not complete" in said
    assert main([*common, "--mutant", "epochs-not-synced", "--stop-after", "1", "--json"]) == 1
    assert '"kind": "create"' in capsys.readouterr().out
