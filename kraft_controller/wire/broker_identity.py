"""`meta.properties`: the cluster and the broker that a log directory belongs to.

With another broker's directory, a broker would serve wrong data. The format is Kafka's: `broker.id`, `cluster.id` and a
version, as Java properties.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from attrs import frozen

from kraft_controller.core.names import BrokerId
from zab.config.properties_file import MalformedEscape, parse

META: Final = "meta.properties"
_REPAIR: Final = "restore the file, or move the directory away"


class WrongIdentity(Exception):
    """A log directory belongs to another broker or cluster, or its owner or the store's cluster is unclear. The message
    says what is wrong, and where."""


@frozen
class Identity:
    """The owner of a directory. Kafka allows the file to lack one of the values."""

    cluster: str | None
    broker: BrokerId | None

    def check(self, path: str, cluster: str, broker: BrokerId) -> None:
        """Raise `WrongIdentity` if the directory belongs to another cluster or broker. `path` names the file."""
        if self.cluster is not None and self.cluster != cluster:
            raise WrongIdentity(
                f"{path}: the directory belongs to cluster {self.cluster}, but the store has cluster {cluster}: "
                "check that zookeeper.connect names the right store"
            )
        if self.broker is not None and self.broker != broker:
            raise WrongIdentity(
                f"{path}: the directory belongs to broker {self.broker}, but this is broker {broker}: "
                "change broker.id, or set log.dirs to other directories"
            )


def encode_identity(cluster: str, broker: BrokerId) -> bytes:
    return f"version=0\nbroker.id={broker}\ncluster.id={cluster}\n".encode()


def decode_identity(data: bytes, path: str, versions: Sequence[str] = ("0", "1")) -> Identity:
    """Decode `data`, the content of the file at `path`. Raises `WrongIdentity` if the file is damaged or has an unknown
    version.

    Kafka in KRaft mode writes version 1, with the key `node.id` instead of `broker.id`.
    """
    try:
        values = {entry.key: entry.value for entry in parse(data.decode())}
    except UnicodeDecodeError:
        raise WrongIdentity(f"{path} is not text, so the owner of the directory is unknown; {_REPAIR}") from None
    except MalformedEscape as error:
        raise WrongIdentity(f"{path}, {error}; {_REPAIR}") from None
    version = values.get("version")
    if version is None:
        raise WrongIdentity(f"{path} has no version: it may be empty or truncated; {_REPAIR}")
    if version not in versions:
        raise WrongIdentity(f"{path}: unknown version {version!r}; supported are {' and '.join(versions)}")
    broker = values.get("broker.id", values.get("node.id", ""))
    if broker and not broker.isdecimal():
        raise WrongIdentity(f"{path}: the broker id {broker!r} is not a number; {_REPAIR}")
    return Identity(values.get("cluster.id"), BrokerId(int(broker)) if broker else None)
