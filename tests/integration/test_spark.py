"""Spark's standalone masters fail over on our ensemble, and sit through an election of its own."""

from __future__ import annotations

import runpy
import subprocess
import sys

import pytest

from tests.integration.processes import ROOT

EXAMPLE = ROOT / "docs/examples/spark_recovery.py"
PATIENCE_S = 900
"""Seven JVMs, one after the other, on whatever else runs here."""

REASON = runpy.run_path(str(EXAMPLE))["missing"]()


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.skipif(REASON is not None, reason=REASON or "")
def test_a_master_takes_over_what_the_other_had() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "master B leads, with the same worker and the same application" in done.stdout
    assert "master B has stayed through it" in done.stdout
