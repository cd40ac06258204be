"""`meta.properties` of a log directory: the cluster and the broker that it belongs to.

A broker on another broker's directory would serve wrong data. The format is Kafka's: `broker.id`, `cluster.id` and a
version, as Java properties.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from attrs import frozen

from kraft_controller.core.names import BrokerId
from zab.config.properties_file import MalformedEscape, parse
from zab.host.durable_file import replace_file

META: Final = "meta.properties"
SESSION: Final = "store.session"
SESSIONS_MAX: Final = 16
_OWNER_ONLY: Final = 0o600
"""The file mode of session ids, which identify this broker's ephemeral nodes."""
_REPAIR: Final = "restore it, or move the directory away"


class WrongIdentity(Exception):
    """A log directory belongs to another broker, or its owner is unclear. The message names the file and the remedy."""


class Unreadable(WrongIdentity):
    """The file cannot be read at all, on a failed disk for example."""


@frozen
class Identity:
    cluster: str | None
    broker: BrokerId | None


def read_identity(directory: Path) -> Identity | None:
    """Read a directory's identity, or None if the directory was not used yet."""
    path = directory / META
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise WrongIdentity(f"{path} is not text, so the owner of the directory is unknown; {_REPAIR}") from None
    except OSError as error:
        raise Unreadable(f"{path}: {error}") from None
    try:
        values = {entry.key: entry.value for entry in parse(text)}
    except MalformedEscape as error:
        raise WrongIdentity(f"{path}, {error}; {_REPAIR}") from None
    version = values.get("version")
    if version is None:
        raise WrongIdentity(f"{path} has no version: it is empty or truncated; {_REPAIR}")
    if version not in ("0", "1"):
        raise WrongIdentity(f"{path}: version {version!r} is unknown; 0 and 1 are known")
    broker = values.get("broker.id", values.get("node.id", ""))
    if broker and not broker.isdecimal():
        raise WrongIdentity(f"{path}: broker.id={broker!r} is not a number; {_REPAIR}")
    return Identity(values.get("cluster.id"), BrokerId(int(broker)) if broker else None)


def known_id(directories: Iterable[Path]) -> BrokerId | None:
    """Return the broker id that the directories were used under, for a broker without a configured id."""
    found = {identity.broker: where for where, identity in _readable(directories) if identity.broker is not None}
    if len(found) > 1:
        told = "; ".join(f"{directory} of broker {broker}" for broker, directory in found.items())
        raise WrongIdentity(f"log directories of different brokers: {told}")
    return next(iter(found), None)


def known_cluster(directories: Iterable[Path]) -> str | None:
    """Return the cluster of the directories, or None if they name different ones or none."""
    found = {identity.cluster for _, identity in _readable(directories)}
    return found.pop() if len(found) == 1 else None


def _readable(directories: Iterable[Path]) -> list[tuple[Path, Identity]]:
    """Return the identities found in readable directories; raise if none is readable."""
    found: list[tuple[Path, Identity]] = []
    failed: list[Unreadable] = []
    directories = list(directories)
    for directory in directories:
        try:
            identity = read_identity(directory)
        except Unreadable as error:
            failed.append(error)
        else:
            if identity is not None:
                found.append((directory, identity))
    if failed and len(failed) == len(directories):
        raise failed[0]
    return found


def claim(directories: Iterable[Path], cluster: str, broker: BrokerId) -> None:
    """Record this broker as the owner of all directories. If one belongs to another broker, change none."""
    directories = list(directories)
    new = []
    for directory in directories:
        held = read_identity(directory)
        if held is None:
            new.append(directory)
            continue
        if held.cluster is not None and held.cluster != cluster:
            raise WrongIdentity(
                f"{directory / META}: it belongs to cluster {held.cluster}, but the store holds cluster {cluster}: "
                "does zookeeper.connect name another cluster's store?"
            )
        if held.broker is not None and held.broker != broker:
            raise WrongIdentity(
                f"{directory / META}: it belongs to broker {held.broker}, but this is broker {broker}: "
                "set broker.id to that, or log.dirs to other directories"
            )
        if held.cluster is None or held.broker is None:
            new.append(directory)
    for directory in new:
        directory.mkdir(parents=True, exist_ok=True)
        replace_file(directory / META, [f"version=0\nbroker.id={broker}\ncluster.id={cluster}\n".encode()])


# -- former sessions ----------------------------------------------------------------------------------


def former_sessions(directory: Path) -> tuple[int, ...]:
    """Return the session ids that `remember_session` wrote. Only the speed of a restart depends on them."""
    try:
        words = (directory / SESSION).read_text("utf-8").split()
        return tuple(int(word, 16) for word in words[-SESSIONS_MAX:])
    except (OSError, ValueError):
        return ()


def remember_session(directory: Path, session: int) -> None:
    """Record a session id, so that the next start can replace this one's registration without waiting."""
    known = [*former_sessions(directory), session][-SESSIONS_MAX:]
    directory.mkdir(parents=True, exist_ok=True)
    replace_file(directory / SESSION, [f"{each:#x}\n".encode() for each in known], mode=_OWNER_ONLY)
