"""The tests of `tests/unit/harness/test_report.py` that need sockets or processes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.unit.harness.test_report import analysis, page

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no chromium to look at the page with: apt install chromium")
def test_a_browser_shows_the_plots_and_has_nothing_to_object_to(tmp_path: Path) -> None:
    """The plots are squares and lines of a size, the text in them is text, and no rule of the page stops any of it."""
    path = tmp_path / "report.html"
    path.write_text(page(analysis(), tmp_path))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
    flags += ["--disable-background-networking", "--disable-component-update", "--enable-logging=stderr"]
    command = [BROWSER or "", *flags, f"--user-data-dir={tmp_path}/profile", "--dump-dom", path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    assert done.stdout.count("<svg") == 4
    assert "Crash (9)" in done.stdout
    assert "CONSOLE" not in done.stderr, done.stderr
