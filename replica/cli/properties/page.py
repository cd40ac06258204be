"""The reference page of `server.properties`, written from the table: `python -m replica.cli.properties.page`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from replica.cli.properties.keys import SECTIONS
from replica.cli.properties.rows import Key

PAGE: Final = "docs/reference/server-properties.md"

_HEAD: Final = """\
# Keys of server.properties

`zab-broker serve` reads the file that a Kafka broker reads; `--override KEY=VALUE` stands before it, and `--check` says
what is wrong and what has no effect, prints what counts, and ends. All mistakes are told at once, each with its line
and with what would be right, and the broker does not start. Here is every key that is known. A key *without effect* is
named in a warning when it is set to anything that does not happen anyway, and so is a key that does not stand here,
with the nearest one that does.

The file has the form of Java's properties. Letters that are no ASCII are written as `\\uXXXX` where Kafka has to read
them, too: it takes the file for Latin-1. Here a file that is valid UTF-8 is read as that, because whoever wrote it
meant it so, and any other as Latin-1; a warning says which of the two it was.

This page is written from the tables in `replica/cli/properties/keys.py` and `idle.py`; a test holds it to that. Another
holds the tables to Kafka: with a value that its broker does not start with, ours does not either. What clients speak
with a broker is told in [Kafka's protocol](../protocol/kafka.md).
"""


def page() -> str:
    parts = [_HEAD]
    for title, keys in SECTIONS:
        parts.append(f"\n## {title}\n")
        for ignored, head in ((False, "| Key | Default | What it is |"), (True, "| Without effect | Default | Why |")):
            chosen = [key for key in keys if key.ignored is ignored]
            if chosen:
                parts.append(f"\n{head}\n|---|---|---|\n")
                parts += [_row(key) for key in chosen]
    return "".join(parts)


def _row(key: Key) -> str:
    return f"| `{key.name}` | {key.default or '-'} | {key.does} |\n"


if __name__ == "__main__":
    Path(PAGE).write_text(page())
