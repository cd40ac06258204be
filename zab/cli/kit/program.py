"""A program with commands. Each command has a module of its own, which is loaded when the command is used."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import click
from attrs import frozen

from zab.cli.kit.failures import DONE, INTERRUPTED, Misused
from zab.cli.kit.standard_streams import with_standard_streams


@frozen
class LazyCommand:
    place: str
    """`module:attribute` of the click command."""
    about: str
    """One line for the list of commands."""

    @property
    def module(self) -> str:
        return self.place.partition(":")[0]

    def load(self) -> click.Command:
        module, _, attribute = self.place.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command


class Program(click.Group):
    """A group of commands whose `--help` loads none of them."""

    def __init__(self, *arguments: Any, table: Mapping[str, LazyCommand], extra: str, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._table = table
        self._extra = extra

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self._table)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        found = self._table.get(name)
        try:
            return None if found is None else found.load()
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] in ("zab", "kraft_controller", "replica"):
                raise
            raise Misused(
                f"this command needs {error.name}, which is not installed: pip install '{self._extra}'"
            ) from None

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.about) for name, each in self._table.items()])


def run_program(program: click.Group, name: str, arguments: Sequence[str]) -> int:
    """Run a command and return its exit status.

    Wrong usage is reported as click reports it, and a failure of the command in one line that begins with the command.
    """
    return with_standard_streams(partial(_run, program, name, list(arguments)))


def _run(program: click.Group, name: str, arguments: list[str]) -> int:
    try:
        code = program.main(arguments, prog_name=name, standalone_mode=False)
    except click.UsageError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        print(f"{name} {arguments[0]}: {error.message}", file=sys.stderr)
        return error.exit_code
    except click.Abort:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    return code if isinstance(code, int) else DONE


def check_command_line(program: click.Group, arguments: Sequence[str]) -> None:
    """Parse a command line without running it; raise `click.UsageError` if it is wrong. For tests of documents."""
    command, context, rest = program, click.Context(program, info_name="-"), list(arguments)
    while isinstance(command, click.Group):
        name, found, rest = command.resolve_command(context, rest)
        assert found is not None
        context = found.make_context(name, rest, context)
        rest = [*getattr(context, "_protected_args", ()), *context.args]
        command = found  # type: ignore[assignment]  # the loop ends with a command that is not a group
