"""Write the generated reference pages of `zab`: `python -m zab.cli.reference`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from zab.cli.kit.reference_page import commands_page
from zab.cli.root import zab
from zab.cli.zoo_cfg.zoo_page import zoo_page

_HEAD: Final = """\
# The command line

The command `zab` comes with `pip install 'zab[cli]'`. Results go to stdout, logs to stderr. The exit status is 0
if a command succeeded, 1 if it failed, and 2 if its usage was wrong; the commands below name their exceptions.
`zab COMMAND --help` prints the same text: this page is generated from it.
"""


def command_line_page() -> str:
    return commands_page("zab", zab, _HEAD)


PAGES: Final[dict[str, Callable[[], str]]] = {
    "docs/reference/command-line.md": command_line_page,
    "docs/reference/zoo-cfg.md": zoo_page,
}


def write_pages(pages: dict[str, Callable[[], str]]) -> None:
    for path, page in pages.items():
        Path(path).write_text(page())


if __name__ == "__main__":
    write_pages(PAGES)
