"""A campaign and its analysis on a standalone cluster of Spark with two workers."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.processes import ROOT

EXAMPLE = ROOT / "docs/examples/harness_cluster.py"
PATIENCE_S = 1_800
"""Seven JVMs, on whatever else runs here."""

REASON = runpy.run_path(str(EXAMPLE))["missing"]()


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.skipif(REASON is not None, reason=REASON or "")
def test_two_workers_run_a_campaign_and_analyse_it(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLE), str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "40 of 40 histories" in done.stdout
    assert "40 runs of list in the world cores with 3 voters: 0 invalid, 0 unknown, 0 errors" in done.stdout
    assert "cluster: 4 executors have worked for this" in done.stdout, "two for each of the two applications"
    assert len(list(tmp_path.glob("campaign=*/analysis/report.html"))) == 1
