"""What people read: of one thing it is said otherwise than of two."""

from __future__ import annotations

import pytest

from harness.cli import main
from harness.cli.common import verdict
from harness.faults import Script
from harness.outcome import Outcome
from zab.core.plurals import counted


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 histories"), (1, "1 history"), (2, "2 histories"), (1_000, "1000 histories")]
)
def test_so_many_of_them(number: int, said: str) -> None:
    assert counted(number, "history", "histories") == said
    assert counted(number, "run") == said.replace("histories", "runs").replace("history", "run")


def test_a_verdict_counts_one_of_each() -> None:
    outcome = Outcome(Script(1), None, "", 9, 1, 9, 0, 0, 1, 7, ())
    assert (
        verdict(outcome) == "valid: 1 event, 0 committed, 0 acknowledged, 1 epoch; all equal 7 ms after the last fault"
    )


def test_which_version_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("zab-harness ")
