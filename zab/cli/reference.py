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

The command `zab` comes with `pip install 'zab[cli]'`. Results go to stdout and logs to stderr. The exit status is 0
when a command ended as asked, 1 when it failed, and 2 when it was misused; where it means more, that is said below.
`zab COMMAND --help` says the same as this page, which is written from it.
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
