"""The reference page of `server.properties`, written from the table of keys."""

from __future__ import annotations

from typing import Final

from replica.cli.properties.keys import TABLE
from zab.config.key_page import key_page

_HEAD: Final = """\
# Keys of server.properties

`zab-broker serve` reads the file that a Kafka broker reads. `--override KEY=VALUE` replaces a key of it. `--check`
reports all mistakes and all keys without effect, prints the settings in force, and ends. All mistakes are reported
together, each with its line and with values that would be right, and the broker does not start. This page lists every
known key. A warning names a key *without effect* if its value asks for something that does not happen anyway, and an
unknown key, with the known key most like it.

The file has the form of Java's properties. Letters other than ASCII are written as `\\uXXXX` if Kafka is to read
them, too: it takes the file for Latin-1. Here a file that is valid UTF-8 is read as UTF-8, and any other as Latin-1; a
warning tells which of the two it was.

`python -m replica.cli.reference` writes this page from the tables in `replica/cli/properties/keys.py` and `idle.py`; a
test holds it to them. Another holds the tables to Kafka: with a value that its broker does not start with, ours does
not either. [Kafka's protocol](../protocol/kafka.md) says what clients speak with a broker.
"""


def server_properties_page() -> str:
    return key_page(_HEAD, TABLE)
