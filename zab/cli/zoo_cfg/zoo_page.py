"""The reference page of the configuration file, written from the table of keys."""

from __future__ import annotations

from typing import Final

from zab.cli.zoo_cfg.keys import TABLE
from zab.config.key_page import key_page

_HEAD: Final = """\
# Keys of the configuration file

`zab serve` reads ZooKeeper's configuration file, as [this guide](../howto/serve-a-zoo-cfg.md) explains. This page lists
every key that it knows. A key counts with and without `zookeeper.` in front, in the file or as `-D key=value`. The last
line of a key counts, and an option counts more than the file. A warning names a key *without effect* if its value asks
for something that does not happen anyway, and an unknown key, with the known key most like it.

`python -m zab.cli.reference` writes this page from the table in `zab/cli/zoo_cfg/keys.py`; a test holds it to that.
"""


def zoo_page() -> str:
    return key_page(_HEAD, TABLE)
