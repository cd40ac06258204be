"""A reference page of a command line, written from its click commands."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator, Sequence

import click


def commands_page(name: str, top: click.Group, head: str) -> str:
    """Return `head` and a chapter for each command below `top`, whose own name is `name`."""
    context = click.Context(top, info_name=name)
    return head + "".join(chapter(each, command) for each, command in _below(name, top, context))


def chapters(name: str, command: click.Command, *, level: int = 2, common: Collection[str] = ()) -> str:
    """Return the chapter of a command, and one for each of its verbs, a level deeper, without the `common` options."""
    parts = [chapter(name, command, level=level, common=common)]
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=name)
        for each, verb in _below(name, command, context):
            parts.append(chapter(each, verb, level=level + 1, common=common))
    return "".join(parts)


def chapter(name: str, command: click.Command, *, level: int = 2, common: Collection[str] = ()) -> str:
    usage = " ".join([name, *(_argument(each) for each in command.params if isinstance(each, click.Argument))])
    parts = [f"\n{'#' * level} {name}\n\n", _text(inspect.cleandoc(command.help or ""))]
    rows = [row for row in option_rows(command.params) if row not in common]
    if rows:
        parts += ["\n", option_table(rows)]
    if not isinstance(command, click.Group):
        parts.insert(1, f"`{usage}{' [OPTIONS]' if rows or common else ''}`\n\n")
    return "".join(parts)


def option_table(rows: Sequence[str]) -> str:
    return "| Option | What it does |\n|---|---|\n" + "".join(rows)


def option_rows(params: Sequence[click.Parameter]) -> list[str]:
    return [_option(each) for each in params if isinstance(each, click.Option) and not each.hidden]


def _below(name: str, group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    for each in group.list_commands(context):
        command = group.get_command(context, each)
        assert command is not None
        yield f"{name} {each}", command
        if isinstance(command, click.Group):
            yield from _below(f"{name} {each}", command, context)


def _text(text: str) -> str:
    """Return paragraphs as they are; put a paragraph with fixed lines (an example or a table) into a fence."""
    parts = []
    for paragraph in text.split("\n\n"):
        lines = paragraph.split("\n")
        parts.append("```text\n" + "\n".join(lines[1:]) + "\n```\n" if lines[0] == "\b" else paragraph + "\n")
    return "\n".join(parts)


def _argument(argument: click.Argument) -> str:
    shown = argument.metavar or (argument.name or "").upper()
    shown = shown if argument.required or shown.startswith("[") else f"[{shown}]"
    return shown if argument.nargs == 1 or "..." in shown else f"{shown}..."


def _option(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in option.opts)
    value = "" if option.is_flag else f" {_value(option)}"
    default = ""
    if option.show_default and not option.is_flag and option.default is not None:
        shown = option.default if isinstance(option.default, tuple) else (option.default,)
        default = f" Default: {', '.join(f'`{_shown(each)}`' for each in shown)}."
    required = " Required." if option.required else ""
    return f"| {names}{value} | {_cell(option.help or '')}{default}{required} |\n"


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _value(option: click.Option) -> str:
    if isinstance(option.type, click.Choice):
        return " \\| ".join(map(str, option.type.choices))
    return _cell(
        option.metavar or option.type.name.upper().replace("INTEGER RANGE", "NUMBER").replace("FLOAT RANGE", "NUMBER")
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
