"""The simulated runtime: the same script gives the same run, runs are valid, and broken drivers are detected."""

from __future__ import annotations

import json
import os

import pytest
import trio

from harness.checkers import Violation
from harness.cli import main
from harness.draw import script_from_seed
from harness.faults import (
    FAULTS,
    LEADER,
    MACHINES,
    CrashAll,
    Fault,
    Flaky,
    Isolate,
    LoseDisk,
    OneWay,
    Restart,
    RollingRestart,
    Script,
    Snapshot,
    Split,
    Timing,
    When,
    Write,
)
from harness.mutants.edit import Edit, planted
from harness.mutants.table import BY_NAME
from harness.worlds.stack import scheduler
from harness.worlds.stack.checked_machine import ONCE, ORDER, RequestCheck
from harness.worlds.stack.world import UNSUPPORTED, WORLD, run
from tests.simulation.elsewhere import printed
from tests.simulation.test_determinism import every_kind
from zab.core.zxid import Zxid
from zab.wire.relay_messages import COUNTER_BYTES, ORIGIN_BYTES

DRAWN = ((2, MACHINES[0]), (3, MACHINES[1]))

PROGRAM = """
from harness.draw import script_from_seed
from harness.worlds.stack.world import run
for seed, machine in {drawn}:
    print(run(script_from_seed(seed, machine=machine, length_ms=1_000), trace=True).trace.hash())
"""

SAVED_AT_ONCE = Edit(
    "zab.runtime.driver:Driver.send_and_save",
    "if ready.save and self._writer.put(ready.save):",
    "if ready.save and (self._writer.put(ready.save) or True):",
)


def test_runs_are_equal_in_another_process_with_another_hash_seed() -> None:
    here = []
    for seed, machine in DRAWN:
        trace = run(script_from_seed(seed, machine=machine, length_ms=1_000), trace=True).trace
        assert trace is not None
        here.append(trace.hash())
    assert len(set(here)) == len(here), "different scripts, different runs"
    assert printed(PROGRAM.format(drawn=DRAWN), "4242" if os.environ.get("PYTHONHASHSEED") != "4242" else "1") == here


def test_seed_determines_the_order_of_tasks() -> None:
    async def order() -> str:
        said: list[str] = []

        async def say(word: str) -> None:
            said.append(word)

        async with trio.open_nursery() as nursery:
            for word in "abcdefgh":
                nursery.start_soon(say, word)
        return "".join(said)

    def under(seed: str) -> str:
        with scheduler.ordered_by(seed):
            return trio.run(order)

    assert under("1") == under("1")
    assert len({under(str(seed)) for seed in range(5)}) > 1


def test_unknown_version_of_trio_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("trio._core._run._r")
    with pytest.raises(scheduler.UnsupportedTrio, match="_r"), scheduler.ordered_by("1"):
        pass


@pytest.mark.parametrize("seed", range(4))
def test_drawn_run_is_valid(seed: int) -> None:
    outcome = run(script_from_seed(seed, voters=3 + 2 * (seed % 2)))
    assert (outcome.invariant, outcome.what) == (None, "")
    assert outcome.acknowledged


def test_acknowledged_writes_survive_a_crash_of_all_servers() -> None:
    script = Script(
        1,
        length_ms=1_500,
        ops=tuple(Write(at, 2, 10) for at in range(300, 1_400, 50)),
        faults=(CrashAll(700, 100, "tear"), Isolate(1_100, 200, 0)),
    )
    outcome = run(script)
    counts = dict(outcome.counts)
    assert outcome.valid, outcome.what
    assert counts["crash"] == 3
    assert outcome.elections > 1
    assert outcome.acknowledged > 10


@pytest.mark.parametrize(
    ("edits", "invariant"),
    [
        pytest.param((SAVED_AT_ONCE,), "durable before acknowledged", id="driver-says-saved-at-once"),
        pytest.param(BY_NAME["commit-without-quorum"].edits, "durable on a quorum", id="commit-without-quorum"),
        pytest.param(BY_NAME["M27"].edits, "applied only when committed and durable", id="apply-before-durable"),
    ],
)
def test_planted_bug_is_detected(edits: tuple[Edit, ...], invariant: str) -> None:
    with planted(edits):
        assert run(script_from_seed(0)).invariant == invariant
    assert run(script_from_seed(0)).valid


def test_unsupported_items_are_skipped_and_named() -> None:
    write, isolate, crash = Write(1, 1, 1), Isolate(2, 5, 1), When(5)
    can = WORLD.playable(Script(1, ops=(write,), faults=(Flaky(3), isolate, crash, When(4, does="freeze clock"))))
    assert can.script == Script(1, ops=(write,), faults=(isolate, crash))
    assert can.skipped == ("Flaky", "When")


def test_every_supported_fault_is_injected_and_the_runs_are_valid() -> None:
    struck = set()
    for script in (*every_kind(), Script(1, length_ms=1_500, faults=(Split(500), OneWay(1_000)))):
        outcome = run(script)
        assert (outcome.invariant, outcome.what) == (None, "")
        struck |= {name for name, _ in outcome.counts if name.startswith("hit ")}
    wanted = {kind for kind in FAULTS if not issubclass(kind, UNSUPPORTED)}
    assert {f"hit {kind.__name__}" for kind in wanted} - struck == set()


def test_stopped_server_finishes_its_writes_and_closes_its_streams() -> None:
    """Servers, including leaders, are stopped repeatedly under load. A leftover stream or task is a violation."""
    faults: list[Fault] = [Restart(at, 30, LEADER) for at in range(500, 2_000, 300)]
    faults.append(RollingRestart(2_100, 50, 150))
    script = Script(
        3, length_ms=3_000, ops=tuple(Write(at, 3, 20) for at in range(300, 2_900, 20)), faults=tuple(faults)
    )
    outcome = run(script)
    assert (outcome.invariant, outcome.what) == (None, "")
    assert dict(outcome.counts)["restart"] >= 6
    assert "crash" not in dict(outcome.counts)


def test_server_that_hangs_when_stopped_is_detected() -> None:
    stays = Edit("zab.runtime.member_runtime:MemberRuntime._close_disk", "self._storage.close()", "raise SystemError")
    script = Script(3, length_ms=1_000, faults=(Restart(500, 30, 1),))
    with planted((stays,)):
        assert run(script).invariant is not None
    assert run(script).valid


@pytest.mark.parametrize("moment", ["before sending Propose", "after writing Append", "quorum acked"])
def test_aimed_fault_strikes_at_its_moment(moment: str) -> None:
    ops = tuple(Write(at, 1, 10) for at in range(300, 1_400, 50))
    outcome = run(Script(1, length_ms=1_500, ops=ops, faults=(When(600, 100, moment=moment),)), trace=True)
    assert (outcome.invariant, outcome.what) == (None, "")
    assert dict(outcome.counts)["crash"] == 1
    assert outcome.trace is not None
    comes = next(act for act in outcome.trace.acts if act[2] == "comes to")
    assert comes[4] == moment
    gone = next(act for act in outcome.trace.acts if act[2] == "crashes")
    assert gone[0] - comes[0] <= 1
    at = outcome.trace.acts.index(gone)
    between = [act[2] for act in outcome.trace.acts[outcome.trace.acts.index(comes) : at] if act[1] == comes[1]]
    assert not {"saves", "applies", "hears"} & set(between)


def test_command_reports_the_world(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--world", "stack", "--seed", "2", "--json", "--hash"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["world"] == "stack"
    assert told["valid"]
    assert "Reconfigure" not in told["skipped"]
    assert len(told["hash"]) == 32


# -- order of requests -------------------------------------------------------------------------------


def payload(origin: bytes, number: int) -> bytes:
    return origin * ORIGIN_BYTES + bytes(COUNTER_BYTES) + b"%d/1..." % number


def test_requests_of_several_members_in_order_are_valid() -> None:
    requests = RequestCheck()
    for zxid, origin, number in ((1, b"a", 1), (2, b"b", 7), (3, b"a", 2), (4, b"b", 8), (3, b"a", 2)):
        requests.applied(Zxid(zxid), payload(origin, number))


@pytest.mark.parametrize(("number", "invariant"), [(3, ONCE), (2, ORDER)])
def test_repeated_and_reordered_requests_are_detected(number: int, invariant: str) -> None:
    requests = RequestCheck()
    requests.applied(Zxid(1), payload(b"a", 1))
    requests.applied(Zxid(2), payload(b"a", 3))
    with pytest.raises(Violation, match=invariant):
        requests.applied(Zxid(3), payload(b"a", number))


def test_server_without_a_history_refuses_a_snapshot() -> None:
    """It refuses, and continues to wait for the leader. An earlier version ended with an exception."""
    script = Script(
        3,
        voters=5,
        length_ms=408,
        timing=Timing(fsync_us_max=29_826),
        ops=(Write(219, 1, 0), Snapshot(407, 5)),
        faults=(LoseDisk(262, 89, LEADER), LoseDisk(388, 1, LEADER)),
    )
    assert run(script).invariant is None
