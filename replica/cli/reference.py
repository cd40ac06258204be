"""The page of commands, made from the commands: `python -m replica.cli.reference` writes it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from typing import Final

from kraft_controller.cli.common import output_arguments, store_arguments
from replica.cli import COMMANDS
from replica.cli.bootstrap import bootstrap_arguments

PAGE: Final = "docs/reference/broker-commands.md"
ALONE: Final = ("serve", "dev", "dump")
AT_BROKERS: Final = ("produce", "consume", "groups", "transactions")
AT_THE_STORE: Final = tuple(name for name in COMMANDS if name not in (*ALONE, *AT_BROKERS))

_HEAD: Final = """\
# Commands for a cluster of brokers

*What people start, and what they ask of a cluster: `zab-broker COMMAND`.*

The command comes with `pip install 'zab[broker]'`. `--help` behind a command or a verb says what stands here. Results
go to stdout, everything else to stderr. The exit status is 0 when it was done, 1 when it was not or when what was
looked for is there (`topics describe --unavailable`), 2 when the command makes no sense as it is, and 130 after
Ctrl-C where nothing was to be ended in order.

This page is written from the commands by `python -m replica.cli.reference`; a test holds it to them.
"""
_ON_THIS_MACHINE: Final = """\
# Running brokers

These work on the machine where they are called.
"""
_ASKING: Final = """\
# Asking brokers

These are clients of the brokers, like any other: they speak Kafka's protocol, and at brokers that are Kafka's own,
too. What may pass, an election or a broker that is gone, is tried again for as long as `--within` says; what cannot
pass, like a topic or a partition that does not exist, ends the command at once.

All of them take:
"""
_WRITING: Final = """\
# Working at the store

These write what they want where the controller watches, and read what became of it. So they work with no broker
up, and what was asked for then is done when there is one. A node that somebody damaged is named on stderr, and the
status is 1; all else is still shown.

All verbs take:
"""
_PARTS: Final[tuple[tuple[str, tuple[str, ...], tuple[Callable[[argparse.ArgumentParser], None], ...]], ...]] = (
    (_ON_THIS_MACHINE, ALONE, ()),
    (_ASKING, AT_BROKERS, (bootstrap_arguments,)),
    (_WRITING, AT_THE_STORE, (output_arguments, store_arguments)),
)


def page() -> str:
    pieces = [_HEAD]
    for head, names, common in _PARTS:
        rows = list(dict.fromkeys(row for each in common for row in _common(each)))
        pieces += ["#" + head, *([_table(rows)] if rows else []), *(chapter(name, rows) for name in names)]
    return "\n".join(pieces)


def chapter(name: str, common: Iterable[str]) -> str:
    """Of one command: what its help says, and a table for each verb, or one where it has no verbs."""
    module = import_module(COMMANDS[name].module)
    parser = argparse.ArgumentParser(prog=f"zab-broker {name}", add_help=False)
    module.add(parser)
    about, _, rest = cleandoc(module.__doc__ or "").partition("\n\nexamples:\n")
    examples, _, notes = rest.partition("\n\n")
    lines = [f"### zab-broker {name}", "", about, ""]
    if examples:
        lines += ["```text", *(line.removeprefix("  ") for line in examples.splitlines()), "```", ""]
    if notes:
        lines += [notes, ""]
    verbs = list(_verbs(parser))
    for verb, said, one in verbs:
        lines += [f"#### {name} {verb}", "", _sentence(said), ""]
        if rows := [row for row in _rows(one) if row not in common]:
            lines += [_table(rows)]
    if not verbs and (rows := [row for row in _rows(parser) if row not in common]):
        lines += [_table(rows)]
    return "\n".join(lines)


def _table(rows: Iterable[str]) -> str:
    return "\n".join(["| | |", "|---|---|", *rows, ""])


def _common(add: Callable[[argparse.ArgumentParser], None]) -> list[str]:
    parser = argparse.ArgumentParser(add_help=False)
    add(parser)
    return list(_rows(parser))


def _verbs(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, one in action.choices.items():
                yield name, one.description or "", one


def _rows(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction | argparse._SubParsersAction) or action.help == argparse.SUPPRESS:
            continue
        named = action.metavar or (f"{{{','.join(map(str, action.choices))}}}" if action.choices else None)
        shown = str(named or action.dest.upper())
        if not action.option_strings:
            left = f"`{named or action.dest}`"
        elif action.nargs == 0:
            left = ", ".join(f"`{option}`" for option in action.option_strings)
        else:
            left = ", ".join(f"`{option} {shown}`" for option in action.option_strings)
        needed = " (needed)" if action.option_strings and action.required else ""
        yield f"| {left}{needed} | {(action.help or '').replace('|', '/')} |"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


if __name__ == "__main__":
    Path(PAGE).write_text(page())
