"""Every test runs once; a test may fail by chance only if the quarantine names it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import QUARANTINE

ROOT: Final = Path(__file__).parents[2]
FAILS: Final = """
import pytest
{mark}
@pytest.mark.parametrize("number", [1])
def test_fails(number):
    with open({log!r}, "a") as log:
        log.write("ran ")
    assert False
"""


def _log(directory: Path) -> Path:
    return directory / "runs"


def _pytest(directory: Path, *options: str, quarantine: str = "{}", mark: str = "") -> subprocess.CompletedProcess[str]:
    (directory / "conftest.py").write_text(
        f"import tests.conftest\ntests.conftest.QUARANTINE.update({quarantine})\nfrom tests.conftest import *\n"
    )
    (directory / "test_it.py").write_text(FAILS.format(mark=mark, log=str(_log(directory))))
    command = (sys.executable, "-m", "pytest", "-q", "-s", "-c", str(ROOT / "pyproject.toml"))
    place = (f"--rootdir={directory}", f"--confcutdir={directory}", "-p", "no:cacheprovider", str(directory))
    return subprocess.run([*command, *place, *options], cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_failing_test_runs_once(tmp_path: Path) -> None:
    outcome = _pytest(tmp_path)
    assert outcome.returncode == pytest.ExitCode.TESTS_FAILED
    assert _log(tmp_path).read_text() == "ran "


@pytest.mark.parametrize(
    ("options", "mark"), [(("--reruns=1",), ""), ((), "@pytest.mark.flaky(reruns=1)")], ids=["option", "mark"]
)
def test_rerun_is_refused(tmp_path: Path, options: tuple[str, ...], mark: str) -> None:
    outcome = _pytest(tmp_path, *options, mark=mark)
    assert outcome.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    assert not _log(tmp_path).exists()


def test_quarantined_test_runs_and_is_reported(tmp_path: Path) -> None:
    outcome = _pytest(tmp_path, "-rx", quarantine="{'test_it.py::test_fails': 'a bug of another client'}")
    assert outcome.returncode == pytest.ExitCode.OK
    assert _log(tmp_path).read_text() == "ran "
    assert "a bug of another client" in outcome.stdout


def test_quarantine_names_existing_tests_with_reasons() -> None:
    for node, reason in QUARANTINE.items():
        path, _, name = node.partition("::")
        assert f"def {name}(" in (ROOT / path).read_text(), node
        assert len(reason.split()) > 3, node
