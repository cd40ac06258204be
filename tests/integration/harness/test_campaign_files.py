"""The tests of `tests/unit/harness/test_campaign_files.py` that need sockets or processes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from harness.spark.campaign import in_processes
from harness.spark.layout import appearing
from harness.spark.rows import result_hash
from tests.unit.harness.test_campaign_files import begun, here, rows


def test_draft_of_killed_process_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with appearing(path) as draft:
        mine = draft.name
        draft.touch()
    begun = mine.removesuffix(str(os.getpid()))
    gone = subprocess.Popen(["true"])
    gone.wait()
    left_over, others, elsewhere = (tmp_path / f"{begun}{who}" for who in (gone.pid, os.getppid(), "x"))
    for each in (left_over, others, elsewhere):
        each.write_text("half")
    with appearing(path) as draft:
        draft.write_text("whole")
    assert {each.name for each in tmp_path.iterdir()} == {"file", others.name, elsewhere.name}


def test_rows_do_not_depend_on_the_process(tmp_path: Path) -> None:
    alone, pool = begun(tmp_path / "alone", 20, sample=3), begun(tmp_path / "pool", 20, sample=3, size=6)
    alone.run(here)
    pool.run(in_processes(2))
    found, again = (sorted(rows(each.layout, "runs"), key=lambda row: row["seed"]) for each in (alone, pool))
    for row in (*found, *again):
        del row["core_seconds"]
    assert found == again
    assert {row["outcome"] for row in found} == {"valid"}
    stored = {row["seed"]: row["stored"] for row in found if row["stored"]}
    assert 1 < len(stored) < 20, "a sample"
    events = rows(alone.layout, "events")
    assert {seed: sum(row["seed"] == seed for row in events) for seed in stored} == stored
    assert all(row["trace_hash"] for row in found if row["stored"])
    for row in found:
        assert row["result_hash"] == result_hash({**row, "faults": dict(row["faults"]), "counts": dict(row["counts"])})
