"""The reference page of the configuration file, written from the table: `python -m zab.cli.zoo.page`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from zab.cli.zoo.keys import FAMILIES, SECTIONS, Key

PAGE: Final = "docs/reference/zoo-cfg.md"

_HEAD: Final = """\
# Keys of the configuration file

`zab serve` reads ZooKeeper's configuration file: [how to serve one](../howto/serve-a-zoo-cfg.md) says how. Here is
every key that it knows. A key counts with and without `zookeeper.` in front, in the file or as `-D key=value`; what is
said twice counts as it was said last, and an option counts more than the file. A key *without effect* is named in a
warning when it is set to anything that does not happen anyway. A key that does not stand here is warned of as well,
with the nearest one that does.

This page is written from the table in `zab/cli/zoo/keys.py`; a test holds it to that.
"""


def page() -> str:
    parts = [_HEAD]
    for title, keys in SECTIONS:
        parts.append(f"\n## {title}\n")
        honoured = [key for key in keys if not key.ignored]
        if honoured:
            parts.append("\n| Key | Default | What it does |\n|---|---|---|\n")
            parts += [_row(key) for key in honoured]
        ignored = [key for key in keys if key.ignored]
        if ignored:
            parts.append("\n| Without effect | Default there | Why |\n|---|---|---|\n")
            parts += [_row(key) for key in ignored]
    parts.append("\n## With a number or a name in them\n\n| Key | What it does |\n|---|---|\n")
    for family in FAMILIES:
        does = f"without effect: {family.does}" if family.ignored else family.does
        parts.append(f"| `{family.shown}` | {_cell(does)} |\n")
    return "".join(parts)


def _row(key: Key) -> str:
    return f"| `{key.name}` | {_cell(key.default)} | {_cell(key.does)} |\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    Path(PAGE).write_text(page())
