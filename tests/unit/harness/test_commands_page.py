"""The page of the commands names every command and every option that there is, and none that there is not."""

from __future__ import annotations

import argparse
import re
from importlib import import_module
from pathlib import Path

from harness.cli import COMMANDS

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "harness-commands.md").read_text()


def options(command: str) -> set[str]:
    parser = argparse.ArgumentParser(add_help=False)
    import_module(f"harness.cli.{command.replace('-', '_')}").add(parser)
    return {option for action in parser._actions for option in action.option_strings}


def test_every_command_is_there() -> None:
    assert re.findall(r"^\| `([a-z][a-z-]+)` \| [a-z]", PAGE, re.M) == list(COMMANDS)


def test_every_option_is_there_and_no_other() -> None:
    there = {option for command in COMMANDS for option in options(command)}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", PAGE)) - {"--help", "--version"} == there


def test_an_option_that_a_row_gives_to_commands_is_theirs() -> None:
    several = PAGE[PAGE.index("## Where,") :]
    rows = re.findall(r"^\| (`--[^|]+) \| ((?:`[a-z]+`(?:, )?)+) \|", several, re.M)
    assert len(rows) > 12
    for named, commands in rows:
        for option in re.findall(r"--[a-z-]+", named):
            for command in re.findall(r"`([a-z]+)`", commands):
                assert option in options(command), f"{command} has no {option}"
