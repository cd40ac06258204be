"""Write the generated reference pages of `zab`: `python -m zab.cli.reference`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from zab.cli.kit.reference_page import commands_page
from zab.cli.root import zab
from zab.cli.zoo_cfg.keys import TABLE
from zab.config.key_page import key_page

_HEAD: Final = """\
# The command line

The command `zab` comes with `pip install 'zab[cli]'`. Results go to stdout, logs to stderr. The exit status is 0
if a command succeeded, 1 if it failed, 2 if its usage was wrong, 74 if stdout could not be written (for example to a
full disk), 141 if the reader of stdout closed the pipe, and 130 if Ctrl-C ended a command that does not handle it, or
if the user did not confirm. Commands with other statuses name them below.
`zab COMMAND --help` prints the same text: this page is generated from it.
"""

_ZOO_HEAD: Final = """\
# Keys of the configuration file

`zab serve` reads ZooKeeper's configuration file, as [this guide](../howto/serve-a-zoo-cfg.md) explains. This page lists
every key that it knows. A key may have the prefix `zookeeper.`, in the file or as `-D key=value`. If a key is
repeated, its last line counts, with a warning; but a repeated `server.N`, `group.N` or `weight.N` is an error. A `-D`
option overrides the file. A key *without effect* causes a warning if its value asks for an effect that this server
lacks. An unknown key always causes a warning, which names a similar known key if there is one.

`python -m zab.cli.reference` writes this page from the table in `zab/cli/zoo_cfg/keys.py`, and a test compares the two.
"""


def command_line_page() -> str:
    return commands_page("zab", zab, _HEAD)


def zoo_page() -> str:
    return key_page(_ZOO_HEAD, TABLE)


PAGES: Final[dict[str, Callable[[], str]]] = {
    "docs/reference/command-line.md": command_line_page,
    "docs/reference/zoo-cfg.md": zoo_page,
}


def write_pages(pages: dict[str, Callable[[], str]]) -> None:
    for path, page in pages.items():
        Path(path).write_text(page())


if __name__ == "__main__":
    write_pages(PAGES)
