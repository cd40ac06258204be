"""The page of commands, made from the commands: `python -m kraft_controller.cli.reference` writes its middle part."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from inspect import cleandoc
from typing import Final

from kraft_controller.cli.common import output_arguments, store_arguments

NAMES: Final = ("topics", "reassign", "elect", "configs", "brokers", "controller")


def chapter(name: str) -> str:
    """Of one command: what its help says, and a table for each verb."""
    module = import_module(f"kraft_controller.cli.{name}")
    parser = argparse.ArgumentParser(prog=f"zab-broker {name}", add_help=False)
    module.add(parser)
    about, _, rest = cleandoc(module.__doc__ or "").partition("\n\nexamples:\n")
    examples, _, notes = rest.partition("\n\n")
    lines = [f"## zab-broker {name}", "", about, "", "```text", *_dedented(examples), "```", ""]
    if notes:
        lines += [notes, ""]
    common = _common()
    for verb, about, one in _verbs(parser):
        lines += [f"### {name} {verb}", "", f"{_sentence(about)}", ""]
        rows = [row for row in _rows(one) if row not in common]
        if rows:
            lines += ["| | |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def common_table() -> str:
    return "\n".join(["| | |", "|---|---|", *_common()])


def _common() -> list[str]:
    parser = argparse.ArgumentParser(add_help=False)
    output_arguments(parser)
    store_arguments(parser)
    return list(_rows(parser))


def _verbs(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, one in action.choices.items():
                yield name, one.description or "", one


def _rows(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        shown = action.metavar or (f"{{{','.join(action.choices)}}}" if action.choices else action.dest.upper())
        if not action.option_strings:
            left = f"`{shown}`" if action.metavar or action.choices else f"`{action.dest}`"
        elif action.nargs == 0:
            left = ", ".join(f"`{option}`" for option in action.option_strings)
        else:
            left = ", ".join(f"`{option} {shown}`" for option in action.option_strings)
        needed = " (needed)" if action.option_strings and action.required else ""
        yield f"| {left}{needed} | {(action.help or '').replace('|', '/')} |"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def _dedented(text: str) -> Iterable[str]:
    return [line.removeprefix("  ") for line in text.splitlines()]


def page() -> str:
    return "\n".join(chapter(name) for name in NAMES)


if __name__ == "__main__":
    sys.stdout.write(page())
