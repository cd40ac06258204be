"""The owner of a directory: a server of an ensemble, and the kind of its state machine.

A server refuses a directory with another owner: if two servers swapped their disks, each would break the other's
promises, and a state machine cannot read the transactions of another kind. A directory from a version that did not
record the kind accepts any kind.
"""

from __future__ import annotations

from typing import Final

import msgpack
from attrs import frozen

from zab.core.errors import ConfigError, DamagedError, StorageError
from zab.core.zxid import ServerId
from zab.storage.disk import Disk, read_all, write_atomically

NAME: Final = "identity"


@frozen
class DirectoryOwner:
    """The owner of a directory. `machine_kind`: None if it was not recorded, "" if the state machine had no kind."""

    ensemble_name: str
    sid: ServerId
    machine_kind: str | None


def claim_directory(disk: Disk, path: object, ensemble_name: str, me: ServerId, machine_kind: str) -> None:
    """Claim a directory. The first server that opens it owns it.

    Raise `ConfigError` for any other server or kind of state machine, `StorageError` if the disk fails, and its
    subclass `DamagedError` if the file with the owner is damaged.
    """
    if NAME not in disk.list():
        write_atomically(disk, NAME, msgpack.packb([ensemble_name, me, machine_kind]))
        return
    owner = owner_of_directory(disk, path)
    if (owner.ensemble_name, owner.sid) != (ensemble_name, me):
        raise ConfigError(
            f"{path} belongs to server {owner.sid} of the ensemble {owner.ensemble_name!r}, and this is server {me} of "
            f"{ensemble_name!r}; give every server a directory of its own, and never a copy of another's"
        )
    if owner.machine_kind not in (None, machine_kind):
        raise ConfigError(
            f"{path} holds the transactions of {_described(owner.machine_kind)}, and this is "
            f"{_described(machine_kind)}; give every state machine a directory of its own"
        )


def _described(machine_kind: str | None) -> str:
    return f"a state machine of the kind {machine_kind!r}" if machine_kind else "a state machine without a kind"


def owner_of_directory(disk: Disk, path: object) -> DirectoryOwner:
    """Return the owner that the file `identity` names. Raise `StorageError` if it cannot be read or is damaged."""
    try:
        name, sid, *rest = msgpack.unpackb(read_all(disk, NAME))
        kind = rest[0] if rest else None
        if type(name) is str and type(sid) is int and len(rest) <= 1 and (not rest or type(kind) is str):
            return DirectoryOwner(name, ServerId(sid), kind)
    except StorageError:
        raise
    except Exception:  # any error: the bytes are damaged
        pass
    raise DamagedError(
        f"{path}/{NAME}: damaged. This file only names the server that the directory belongs to; log and snapshots are "
        "other files. If the directory is certainly this server's own (never swapped or copied), "
        f"remove {NAME}: the next start writes it again. See docs/howto/recover-a-damaged-server.md"
    )
