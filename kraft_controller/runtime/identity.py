"""`meta.properties`: whose a log directory is. A broker that started on another's would serve wrong data as its own.

Lines as Java's properties have them, so Kafka's tools read them: `broker.id`, `cluster.id` and a version.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from attrs import frozen

from kraft_controller.core.names import BrokerId

META: Final = "meta.properties"
SESSION: Final = "store.session"
SESSIONS_MAX: Final = 16
_OWNER_ONLY: Final = 0o600
"""Whoever knows the id of a session can tell this broker's ephemeral nodes from others'."""
_ANYBODY: Final = 0o666
"""Minus the umask."""
_MENDED: Final = "put it back as it was, or move the directory away"


class WrongIdentity(Exception):
    """A log directory is not this broker's, or does not say clearly whose it is. Says which file and what to do."""


class Unreadable(WrongIdentity):
    """What it says cannot be read at all, as of a disk that has failed."""


@frozen
class Identity:
    cluster: str | None
    broker: BrokerId | None


def read_identity(directory: Path) -> Identity | None:
    """None: nobody has used it yet."""
    path = directory / META
    try:
        lines = path.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise WrongIdentity(f"{path} is no text, so nobody knows whose this directory is; {_MENDED}") from None
    except OSError as error:
        raise Unreadable(f"{path}: {error}") from None
    values = _properties(lines)
    version = values.get("version")
    if version is None:
        raise WrongIdentity(f"{path} names no version, as if it were empty or cut short; {_MENDED}")
    if version not in ("0", "1"):
        raise WrongIdentity(f"{path}: version {version!r} is none that is known; 0 and 1 are")
    broker = values.get("broker.id", values.get("node.id", ""))
    if broker and not broker.isdecimal():
        raise WrongIdentity(f"{path}: broker.id={broker!r} is no number; {_MENDED}")
    return Identity(values.get("cluster.id"), BrokerId(int(broker)) if broker else None)


def known_id(directories: Iterable[Path]) -> BrokerId | None:
    """Under which id these were used; for a broker whose configuration names none."""
    found = {identity.broker: where for where, identity in _readable(directories) if identity.broker is not None}
    if len(found) > 1:
        told = "; ".join(f"{directory} of broker {broker}" for broker, directory in found.items())
        raise WrongIdentity(f"log directories of different brokers: {told}")
    return next(iter(found), None)


def known_cluster(directories: Iterable[Path]) -> str | None:
    """Of which cluster these were last; None where they do not all say the same, or nothing at all."""
    found = {identity.cluster for _, identity in _readable(directories)}
    return found.pop() if len(found) == 1 else None


def _readable(directories: Iterable[Path]) -> list[tuple[Path, Identity]]:
    """What they say that say something. A disk that has failed says nothing; where all of them have, that is raised."""
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
    """All of them are this broker's, or become so. None is changed if one is another's."""
    directories = list(directories)
    new = []
    for directory in directories:
        held = read_identity(directory)
        if held is None:
            new.append(directory)
            continue
        if held.cluster is not None and held.cluster != cluster:
            raise WrongIdentity(
                f"{directory / META}: it belongs to cluster {held.cluster}, and the store says {cluster}: "
                "is zookeeper.connect another cluster's?"
            )
        if held.broker is not None and held.broker != broker:
            raise WrongIdentity(
                f"{directory / META}: it belongs to broker {held.broker}, and this is broker {broker}: "
                "set broker.id to that, or log.dirs to others"
            )
        if held.cluster is None or held.broker is None:
            new.append(directory)
    for directory in new:
        directory.mkdir(parents=True, exist_ok=True)
        _write(directory / META, f"version=0\nbroker.id={broker}\ncluster.id={cluster}\n")


# -- sessions of before ----------------------------------------------------------------------------------


def former_sessions(directory: Path) -> tuple[int, ...]:
    """Ids that `remember_session` wrote here, as far as they can be read: nothing depends on them but speed."""
    try:
        words = (directory / SESSION).read_text("utf-8").split()
        return tuple(int(word, 16) for word in words[-SESSIONS_MAX:])
    except (OSError, ValueError):
        return ()


def remember_session(directory: Path, session: int) -> None:
    """So that the next start knows the node of this one for its own, and need not wait for it to go."""
    known = [*former_sessions(directory), session][-SESSIONS_MAX:]
    directory.mkdir(parents=True, exist_ok=True)
    _write(directory / SESSION, "".join(f"{each:#x}\n" for each in known), _OWNER_ONLY)


def _write(path: Path, text: str, mode: int = _ANYBODY) -> None:
    """All of it or nothing, whenever the machine stops."""
    fresh = path.with_name(path.name + ".tmp")
    fresh.unlink(missing_ok=True)  # one that an interrupted start left has the mode of that start
    with open(fresh, "x", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    above = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(above)
    finally:
        os.close(above)


def _properties(lines: Iterable[str]) -> Mapping[str, str]:
    values = {}
    for line in lines:
        line = line.strip()
        if line and line[0] not in "#!":
            key, _, value = line.partition("=")
            values[key.strip()] = value.strip()
    return values
