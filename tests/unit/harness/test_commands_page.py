"""The reference page of the commands is generated from them."""

from __future__ import annotations

from pathlib import Path

from harness.cli.reference import commands_of_harness

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "harness-commands.md"


def test_page_is_what_the_commands_say() -> None:
    assert PAGE.read_text() == commands_of_harness(), "run `python -m harness.cli.reference`"
