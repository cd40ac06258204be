"""The broker's programs tune their process before they serve."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from replica.cli import main


@pytest.fixture
def collector() -> Iterator[None]:
    thresholds = gc.get_threshold()
    gc.unfreeze()
    yield
    gc.set_threshold(*thresholds)
    gc.freeze()  # as it was: see tests/conftest.py


@pytest.mark.usefixtures("collector")
@pytest.mark.parametrize("program", ["serve", "dev"])
def test_full_rounds_of_the_collector_are_rare(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = gc.get_threshold()
    seen: list[tuple[int, int, int]] = []
    module = importlib.import_module(f"replica.cli.{program}_command")
    monkeypatch.setattr(module, "run", lambda *_: seen.append(gc.get_threshold()))
    monkeypatch.setattr(module, "log_to_stderr", lambda *_: None, raising=False)
    properties = tmp_path / "server.properties"
    properties.write_text(f"broker.id=1\nzookeeper.connect=127.0.0.1:1\nlog.dirs={tmp_path}/logs\n")
    arguments = {"serve": [str(properties)], "dev": ["--data", str(tmp_path / "data")]}
    assert main([program, *arguments[program]]) == 0
    ((young, middle, old),) = seen
    assert young * middle * old >= 100 * before[0] * before[1] * before[2]
    assert gc.get_freeze_count()
