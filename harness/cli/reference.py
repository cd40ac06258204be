"""Write the generated reference page of `zab-harness`: `python -m harness.cli.reference`."""

from __future__ import annotations

from typing import Final

from harness.cli.root import zab_harness
from zab.cli.kit.reference_page import commands_page
from zab.cli.reference import write_pages

_HEAD: Final = """\
# The commands of the harness

`zab-harness` comes with `pip install 'zab[harness]'`. `fuzz --output`, `analyze`, `report` and `compare` need
`pip install 'zab[spark]'`. Results go to stdout, progress to stderr. The exit status is 0 if all invariants hold, 1 if
one is violated or could not be decided, 2 if the command line or an input file is invalid, 74 if stdout could not be
written (the disk is full), and 141 if its reader closed the pipe. A run that exceeds its event budget has the verdict
*unknown*: the command reports the events spent, and counts the run apart from invalid runs and from errors of the
harness itself. On SIGTERM a command reports the work that is stored. Its processes (`--jobs`) end with it, even if it
is killed: runs in progress are lost, and stored results remain.

[Break it](../howto/break-it.md) is the way in. [Fault scripts](fault-scripts.md) describes scripts, [the planted
bugs](mutants.md) the mutants and profiles, [Exploration](../exploration.md) the bounds of `explore`.
`zab-harness COMMAND --help` prints the same text: this page is generated from it.
"""


def commands_of_harness() -> str:
    return commands_page("zab-harness", zab_harness, _HEAD)


if __name__ == "__main__":
    write_pages({"docs/reference/harness-commands.md": commands_of_harness})
