"""What lies in a campaign's directory: what is left to do, what is finished, and that it is finished all at once."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from attrs import evolve

from harness.cli import main
from harness.faults import MACHINES
from harness.outcome import Outcome
from harness.run.plan import Plan
from harness.scripts import loads
from harness.spark import campaign as campaign_module
from harness.spark import chunk as chunk_module
from harness.spark.campaign import Campaign, Stopped, in_processes, reason
from harness.spark.chunk import Done, OtherCode, Work, finish, is_repeated
from harness.spark.identity import campaign_name, code_hash, config_hash
from harness.spark.layout import Chunk, Layout, LayoutError, appearing, find, left
from harness.spark.schema import STORED, VERSION
from harness.spark.verdicts import as_clients_saw_it
from harness.worlds import world
from harness.worlds.cores import simulator

SMALL = {"faults": 2, "ops": 8, "length_ms": 300}


def rows(layout: Layout, table: str) -> list[dict[str, Any]]:
    found = [pq.read_table(layout.table(table) / chunk.name).to_pylist() for chunk in layout.chunks(table)]
    return [row for part in found for row in part]


def begun(folder: Path, runs: int, *, mutant: str | None = None, sample: int = 100, size: int = 10) -> Campaign:
    return Campaign.at(folder, Plan(runs, mutant=mutant, **SMALL), sample=sample, size=size)  # type: ignore[arg-type]


def here(work: Work, chunks: Sequence[Chunk], on: Callable[[], bool]) -> None:
    """Without processes, for what would be the same in another."""
    for each in chunks:
        finish(work, each)
        if not on():
            return


def counted(done: Done) -> Done:
    """Without what differs from machine to machine, and from run to run."""
    assert done.stored >= 0
    assert done.core_seconds > 0
    return evolve(done, stored=0, core_seconds=0.0)


# -- what is left --------------------------------------------------------------------------------------


def test_chunks_begin_at_multiples_and_leave_out_what_is_done() -> None:
    assert left([], 0, 25, 10) == [Chunk(0, 10), Chunk(10, 20), Chunk(20, 25)]
    assert left([], 7, 5, 10) == [Chunk(7, 10), Chunk(10, 12)]
    assert left([Chunk(0, 10), Chunk(20, 25)], 0, 40, 10) == [Chunk(10, 20), Chunk(25, 30), Chunk(30, 40)]
    assert left([Chunk(0, 100)], 0, 40, 10) == []
    assert left([Chunk(0, 15), Chunk(10, 30)], 5, 30, 10) == [Chunk(30, 35)]
    assert left([Chunk(50, 60)], 0, 10, 10) == [Chunk(0, 10)], "what lies beyond is nobody's business"


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with appearing(path) as draft:
        draft.write_text("whole")
        assert not path.exists()
    assert path.read_text() == "whole"

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left"), appearing(path, full) as draft:
        draft.write_text("never seen")
    with pytest.raises(KeyError), appearing(path) as draft:
        draft.write_text("half")
        raise KeyError
    assert path.read_text() == "whole"
    assert [each.name for each in tmp_path.iterdir()] == ["file"], "no draft is left behind"


# -- a campaign ----------------------------------------------------------------------------------------


def test_campaign_resumes_and_repeats_no_chunk(tmp_path: Path) -> None:
    first = begun(tmp_path, 25)
    assert counted(first.run(here)) == Done(25)
    before = {path: path.stat().st_mtime_ns for path in first.layout.table("runs").iterdir()}
    second = begun(tmp_path, 40)
    assert second.layout == first.layout, "more seeds of the same campaign"
    assert [chunk for chunk in second.left() if not chunk.again] == [Chunk(25, 30), Chunk(30, 40)]
    assert second.run(here).runs == 40
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert sorted(row["seed"] for row in rows(first.layout, "runs")) == list(range(40))
    assert begun(tmp_path, 40).left() == []
    assert begun(tmp_path, 40).done().stored == sum(row["stored"] for row in rows(first.layout, "runs"))
    assert begun(tmp_path, 40, mutant="M27").layout != first.layout, "another bug, another campaign"


def test_a_campaign_ends_early_when_enough_was_seen(tmp_path: Path) -> None:
    made = begun(tmp_path, 60, mutant="commit-without-quorum")
    done = made.run(here, lambda so_far: so_far.invalid < 5)
    assert 5 <= done.invalid <= done.runs < 60


def test_failures_are_stored_with_all_that_is_needed_to_see_them_again(tmp_path: Path) -> None:
    made = begun(tmp_path, 5, mutant="commit-without-quorum", sample=0)
    assert made.run(here).invalid == 5
    for row in rows(made.layout, "runs"):
        assert row["invariant"]
        assert loads(row["script"]).seed == row["seed"]
        last = [event for event in rows(made.layout, "events") if event["seed"] == row["seed"]][-1]
        assert (last["verb"], row["stored"] > 10) == ("violation", True)
        assert row["what"] in last["what"]


def test_client_histories_are_stored_and_checked_from_rows(tmp_path: Path) -> None:
    plan = Plan(2, faults=2, ops=20, length_ms=600, machine="store")
    made = Campaign.at(tmp_path, plan, sample=1)
    assert counted(made.run(here)) == Done(2)
    saw, did = rows(made.layout, "histories"), rows(made.layout, "events")
    for run in rows(made.layout, "runs"):
        seed, each = run["seed"], [row for row in saw if row["seed"] == run["seed"]]
        assert run["machine"] == "store"
        assert run["stored"] == len(each) + sum(row["seed"] == seed for row in did)
        assert as_clients_saw_it(each, 1_000_000).verdict == "valid"
        assert as_clients_saw_it(each[1:], 1_000_000).what.startswith("invalid history rows: ")
        assert any(row["kind"] == "Response" for row in each)


def test_one_in_a_hundred_is_run_twice(tmp_path: Path) -> None:
    repeated = [seed for seed in range(1_000) if is_repeated(seed)]
    assert 3 <= len(repeated) <= 25
    made = begun(tmp_path, 1, size=1)
    work = made.work
    finish(work, Chunk(repeated[0], repeated[0] + 1))
    finish(work, Chunk(repeated[0] - 1, repeated[0] + 2, again=True))
    (run,), (repeat,) = rows(made.layout, "runs"), rows(made.layout, "repeats")
    assert run["trace_hash"]
    assert all(run[name] == repeat[name] for name in ("seed", "result_hash", "trace_hash"))


# -- bad luck ------------------------------------------------------------------------------------------


class Wrong(Exception):
    pass


def test_error_of_harness_is_a_row_and_affects_no_other_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = begun(tmp_path, 4)
    run = world("cores").run

    def sometimes(script: Any, *, trace: bool = False) -> Outcome:
        if script.seed == 2:
            raise Wrong("this is not how it should be")
        return run(script, trace=trace)

    broken = evolve(world("cores"), run=sometimes)
    monkeypatch.setattr(chunk_module, "world_for", lambda *_: broken)
    assert counted(made.run(here)) == Done(4, errors=1)
    by_seed = {row["seed"]: row for row in rows(made.layout, "runs")}
    assert [by_seed[seed]["outcome"] for seed in range(4)] == ["valid", "valid", "error", "valid"]
    assert by_seed[2]["what"].startswith("Wrong in sometimes (test_campaign_files.py:")
    assert by_seed[2]["script"]


def test_unknown_run_is_neither_error_nor_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(simulator, "EVENTS_MAX", 100)
    command = ["fuzz", "--runs", "3", "--ops", "8", "--length-ms", "300", "--output", str(tmp_path)]
    monkeypatch.setattr(campaign_module, "in_processes", lambda jobs: here)
    assert main([*command, "--master", "none"]) == 1
    assert "3 of 3 histories" in (said := capsys.readouterr().out)
    assert "0 invalid, 3 unknown, 0 errors" in said
    assert main([*command, "--master", "none", "--json"]) == 1, "so it is when it was all done before"
    told = json.loads(capsys.readouterr().out)
    assert (told["invalid"], told["unknown"], told["errors"]) == (0, 3, 0)


def test_kept_campaign_stops_after_failures_and_lists_each_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = world("cores").run

    def broken(script: Any, *, trace: bool = False) -> Outcome:
        outcome = run(script, trace=trace)
        if script.seed == 4:
            raise Wrong("this is not how it should be")
        return evolve(outcome, invariant=f"invariant {script.seed % 2}", what=f"seed {script.seed}")

    monkeypatch.setattr(chunk_module, "world_for", lambda *_: evolve(world("cores"), run=broken))
    monkeypatch.setattr(campaign_module, "in_processes", lambda jobs: here)
    command = ["fuzz", "--runs", "6", "--ops", "8", "--length-ms", "300", "--output", str(tmp_path), "--no-shrink"]
    command += ["--master", "none"]
    assert main([*command, "--stop-after", "3"]) == 1
    assert "3 of 6 histories" in capsys.readouterr().out
    assert main([*command, "--stop-after", "0"]) == 1
    printed = capsys.readouterr().out
    assert "6 of 6 histories, 3 of them in these" in printed
    assert "VIOLATED invariant 0: seed 0 (2 runs)\n  zab-harness replay --seed 0 --servers 3" in printed
    assert "VIOLATED invariant 1: seed 1 (3 runs)\n  zab-harness replay --seed 1 --servers 5" in printed
    assert "ERROR Wrong in " in printed
    assert main([*command, "--json"]) == 1
    kinds = json.loads(capsys.readouterr().out)["failures"]
    assert [(kind["invariant"], kind["runs"], kind["seed"]) for kind in kinds] == [
        ("invariant 0", 2, 0), ("invariant 1", 3, 1), (None, 1, 4),
    ]  # fmt: skip


def test_recoveries_are_in_the_rows_of_every_machine(tmp_path: Path) -> None:
    for machine in MACHINES:
        made = Campaign.at(tmp_path, Plan(2, voters=(3,), faults=4, ops=10, length_ms=800, machine=machine))
        assert counted(made.run(here)) == Done(2)
        found = rows(made.layout, "runs")
        assert [row["machine"] for row in found] == [machine, machine]
        recovered = [each for row in found for each in row["recoveries"]]
        assert recovered
        assert all(each["kind"] and each["at_ms"] >= 0 for each in recovered)


def test_full_disk_loses_only_unfinished_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = begun(tmp_path, 30)
    replace = os.replace

    def full(source: Any, target: Any) -> None:
        if "runs/seeds-000000000010" in str(target):
            raise OSError(errno.ENOSPC, "No space left on device", str(target))
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        made.run(here)
    monkeypatch.undo()
    assert made.done().runs == 10
    assert not list(made.layout.root.rglob(".*")), "no half files"
    assert made.run(here).runs == 30
    assert sorted(row["seed"] for row in rows(made.layout, "runs")) == list(range(30))


def out_of_space(work: Work, chunk: Chunk) -> Done:
    if chunk.first == 10:
        raise OSError(errno.ENOSPC, "No space left on device")
    return finish(work, chunk)


def test_a_task_that_cannot_go_on_ends_the_campaign_with_its_reason(tmp_path: Path) -> None:
    made = begun(tmp_path, 30)
    with pytest.raises(Stopped, match="No space left on device"):
        made.run(in_processes(1, out_of_space))
    assert made.done().runs in (10, 20)


def test_other_code_is_refused(tmp_path: Path) -> None:
    made = begun(tmp_path, 1)
    with pytest.raises(OtherCode, match="that of the campaign is 0123"):
        finish(Work(made.plan, made.layout, "0123"), Chunk(0, 1))


def test_spark_error_is_reduced_to_its_cause() -> None:
    said = "An exception was thrown\n  File x\nOSError: [Errno 28] No space left on device: '/x'\n\tat java.lang"
    assert reason(RuntimeError(said)) == "OSError: [Errno 28] No space left on device: '/x'"
    assert reason(RuntimeError("Job aborted\nPython worker exited unexpectedly (crashed)\n at")) == (
        "Python worker exited unexpectedly (crashed)"
    )


# -- what it is ----------------------------------------------------------------------------------------


def test_campaign_name_depends_on_inputs_of_runs() -> None:
    plan = Plan(10)
    assert campaign_name(plan) == f"cores-{config_hash(plan)}-{code_hash()}"
    assert config_hash(Plan(99, 7)) == config_hash(plan), "which seeds are run changes no run"
    assert len({config_hash(each) for each in (plan, Plan(10, ops=99), Plan(10, world="stack"))}) == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no JSON"),
        ("[]", f"version: expected {VERSION}"),
        ('{"version": 99}', f"version: expected {VERSION}, not 99"),
    ],
)
def test_a_campaign_that_is_none_is_refused_by_its_place(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(LayoutError, match="this folder has no campaign"):
        find(tmp_path)
    with pytest.raises(LayoutError, match="this directory does not exist"):
        find(tmp_path / "nowhere")
    layout = begun(tmp_path, 1).layout
    assert find(tmp_path) == find(layout.root) == layout
    path = layout.root / "meta.json"
    path.write_text(text)
    with pytest.raises(LayoutError, match=f"meta.json: {said}"):
        layout.meta()
    path.unlink()
    with pytest.raises(LayoutError, match="meta.json: No such file"):
        layout.meta()
    begun(tmp_path, 1, mutant="M27")
    with pytest.raises(LayoutError, match="choose one of several campaigns with --campaign: cores-"):
        find(tmp_path)
    assert find(tmp_path, layout.name[:12]).name == layout.name


def test_every_file_says_which_table_and_which_version_it_is(tmp_path: Path) -> None:
    for table in STORED:
        path = tmp_path / table.name
        pq.write_table(pa.Table.from_pylist([], schema=table.arrow(violated="0")), path)
        said = pq.read_schema(path).metadata
        assert (said[b"table"].decode(), said[b"version"].decode()) == (table.name, str(VERSION))
        assert [field.name for field in pq.read_schema(path)] == [column.name for column in table.columns]
