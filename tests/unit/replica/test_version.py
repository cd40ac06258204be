from __future__ import annotations

import pytest

from replica.cli import main


def test_which_version_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("zab-broker ")
