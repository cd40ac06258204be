"""The reference page of `server.properties`, generated from the table of keys."""

from __future__ import annotations

from typing import Final

from replica.cli.properties.keys import TABLE
from zab.config.key_page import key_page

_HEAD: Final = """\
# Keys of server.properties

`zab-broker serve` reads the configuration file of a Kafka broker. `--override KEY=VALUE` overrides a key. If there
are mistakes, all of them are reported together, and the broker does not start. `--check` starts no broker: it reports
the mistakes, or prints the settings that have an effect. This page lists every known key. A warning names each key
*without effect* whose value differs from the behavior of this broker, and each unknown key, with a similar known key
if there is one. An unknown key about security is a mistake.

The file has the format of Java's properties. Kafka reads it as Latin-1, so other letters must be written as
`\\uXXXX` there. Here a file that is valid UTF-8 is read as UTF-8, and any other as Latin-1. If the file has letters
beyond ASCII, a warning names the choice.

`python -m replica.cli.reference` writes this page from the tables in `replica/cli/properties/keys.py` and `idle.py`. A
test compares the page with the tables. Another test compares the tables with Kafka: a value with which Kafka's broker
does not start is refused here, too. [Kafka's protocol](../protocol/kafka.md) describes the protocol between clients and
a broker.
"""


def server_properties_page() -> str:
    return key_page(_HEAD, TABLE)
