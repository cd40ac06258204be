"""Replay of every story: the outcome must be the written one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenario.runner import BROKEN, play, read, stories, write

STORIES = Path(__file__).parent / "stories"


@pytest.mark.parametrize("path", stories(), ids=lambda path: str(path.relative_to(STORIES).with_suffix("")))
def test_story(path: Path, request: pytest.FixtureRequest) -> None:
    rewrite = request.config.getoption("--rewrite", default=False)
    text = write(play(read(path.read_text()), author=rewrite))
    if rewrite:
        path.write_text(text)
    assert path.read_text() == text
    assert BROKEN not in text
