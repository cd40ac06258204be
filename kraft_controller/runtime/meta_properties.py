"""Reading and writing `meta.properties`, and the session ids that a broker saves in its log directories."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from kraft_controller.core.names import BrokerId
from kraft_controller.wire.broker_identity import META, Identity, WrongIdentity, decode_identity, encode_identity
from zab.host.durable_file import replace_file

SESSION: Final = "store.session"
SESSIONS_MAX: Final = 16
_OWNER_ONLY: Final = 0o600
"""The file mode of saved session ids. Only this broker needs them."""


class Unreadable(WrongIdentity):
    """The `meta.properties` of a directory cannot be read, for example on a failed disk."""


def read_identity(directory: Path) -> Identity | None:
    """Read a directory's identity; None if the directory has no `meta.properties`."""
    path = directory / META
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unreadable(f"{path}: {error}") from None
    return decode_identity(data, str(path))


def known_id(directories: Iterable[Path]) -> BrokerId | None:
    """Return the broker id in the directories, for a broker without a configured id; None if they have none.

    Raise `WrongIdentity` if they have different ones, if a file is damaged, or if no directory is readable.
    """
    found = {identity.broker: where for where, identity in _readable(directories) if identity.broker is not None}
    if len(found) > 1:
        listed = "; ".join(f"{directory} of broker {broker}" for broker, directory in found.items())
        raise WrongIdentity(f"log directories of different brokers: {listed}; set log.dirs to those of one broker")
    return next(iter(found), None)


def known_cluster(directories: Iterable[Path]) -> str | None:
    """Return the cluster id in the directories; None if they have none, or different ones.

    Raise `WrongIdentity` if a file is damaged, or if no directory is readable.
    """
    found = {identity.cluster for _, identity in _readable(directories) if identity.cluster is not None}
    return found.pop() if len(found) == 1 else None


def _readable(directories: Iterable[Path]) -> list[tuple[Path, Identity]]:
    """Return the identities in the readable directories. Raise `Unreadable` if there are directories, but none is
    readable."""
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
    """Record this broker as the owner of all directories. If any belongs to another broker or cluster, raise
    `WrongIdentity` and change none."""
    directories = list(directories)
    new = []
    for directory in directories:
        held = read_identity(directory)
        if held is None:
            new.append(directory)
            continue
        held.check(str(directory / META), cluster, broker)
        if held.cluster is None or held.broker is None:
            new.append(directory)
    for directory in new:
        directory.mkdir(parents=True, exist_ok=True)
        replace_file(directory / META, [encode_identity(cluster, broker)])


# -- former sessions ----------------------------------------------------------------------------------


def former_sessions(directory: Path) -> tuple[int, ...]:
    """Return the session ids that `remember_session` saved, or an empty tuple if the file is missing or unreadable. The
    ids only speed up a restart."""
    try:
        words = (directory / SESSION).read_text("utf-8").split()
        return tuple(int(word, 16) for word in words[-SESSIONS_MAX:])
    except (OSError, ValueError):
        return ()


def remember_session(directory: Path, session: int) -> None:
    """Save a session id, so that the next start can replace this session's registration without waiting."""
    known = [*former_sessions(directory), session][-SESSIONS_MAX:]
    directory.mkdir(parents=True, exist_ok=True)
    replace_file(directory / SESSION, [f"{each:#x}\n".encode() for each in known], mode=_OWNER_ONLY)
