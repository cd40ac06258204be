"""The reference page of the command line, written from the commands themselves: `python -m zab.cli.page`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

PAGE: Final = "docs/reference/command-line.md"

_HEAD: Final = """\
# The command line

The command `zab` comes with `pip install 'zab[cli]'`. Results go to stdout and logs to stderr. The exit status is 0
when a command ended as asked, 1 when it failed, and 2 when it was misused; where it means more, that is said below.
`zab COMMAND --help` says the same as this page, which is written from it.
"""


def page(top: click.Group) -> str:
    context = click.Context(top, info_name="zab")
    return _HEAD + "".join(_command(name, each) for name, each in _all("zab", top, context))


def _all(name: str, group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    for each in group.list_commands(context):
        command = group.get_command(context, each)
        assert command is not None
        yield f"{name} {each}", command
        if isinstance(command, click.Group):
            yield from _all(f"{name} {each}", command, context)


def _command(name: str, command: click.Command) -> str:
    usage = " ".join([name, *(_argument(each) for each in command.params if isinstance(each, click.Argument))])
    parts = [f"\n## {name}\n\n", _text(inspect.cleandoc(command.help or ""))]
    options = [each for each in command.params if isinstance(each, click.Option)]
    if options:
        parts.append("\n| Option | What it does |\n|---|---|\n")
        parts += [_option(each) for each in options]
    if not isinstance(command, click.Group):
        parts.insert(1, f"`{usage}{' [OPTIONS]' if options else ''}`\n\n")
    return "".join(parts)


def _text(text: str) -> str:
    """Paragraphs as they are, but for those that keep their lines: these are examples, or tables."""
    parts = []
    for paragraph in text.split("\n\n"):
        lines = paragraph.split("\n")
        parts.append("```\n" + "\n".join(lines[1:]) + "\n```\n" if lines[0] == "\b" else paragraph + "\n")
    return "\n".join(parts)


def _argument(argument: click.Argument) -> str:
    return argument.metavar or (argument.name or "").upper()


def _option(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in option.opts)
    value = "" if option.is_flag else f" {_value(option)}"
    default = ""
    if option.show_default and not option.is_flag and option.default is not None:
        shown = option.default if isinstance(option.default, tuple) else (option.default,)
        default = f" Default: {', '.join(f'`{each}`' for each in shown)}."
    required = " Required." if option.required else ""
    return f"| {names}{value} | {_cell(option.help or '')}{default}{required} |\n"


def _value(option: click.Option) -> str:
    if isinstance(option.type, click.Choice):
        return " \\| ".join(map(str, option.type.choices))
    return _cell(
        option.metavar or option.type.name.upper().replace("INTEGER RANGE", "NUMBER").replace("FLOAT RANGE", "NUMBER")
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    from zab.cli.commands import zab

    Path(PAGE).write_text(page(zab))
