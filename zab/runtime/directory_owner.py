"""The owner of a directory. Two servers that swapped their disks would break each other's promises."""

from __future__ import annotations

from typing import Final

import msgpack

from zab.core.errors import ConfigError, DamagedError, StorageError
from zab.core.zxid import ServerId
from zab.storage.disk import Disk, read_all, write_durably

NAME: Final = "identity"


def claim_directory(disk: Disk, path: object, ensemble_name: str, me: ServerId) -> None:
    """Claim a directory: the first server to open it owns it, and any other server is refused."""
    mine = [ensemble_name, me]
    if NAME not in disk.list():
        write_durably(disk, NAME, msgpack.packb(mine))
        return
    owner = owner_of_directory(disk, path)
    if owner != (ensemble_name, me):
        name, sid = owner
        raise ConfigError(
            f"{path} belongs to server {sid} of the ensemble {name!r}, and this is server {me} of {ensemble_name!r}; "
            f"give every server a directory of its own, and never a copy of another's"
        )


def owner_of_directory(disk: Disk, path: object) -> tuple[str, ServerId]:
    """Return the ensemble's name and the server id in the file."""
    try:
        name, sid = msgpack.unpackb(read_all(disk, NAME))
        if type(name) is str and type(sid) is int:
            return name, ServerId(sid)
    except StorageError:
        raise
    except Exception:  # any error: these are not the bytes that were written
        pass
    raise DamagedError(
        f"{path}/{NAME}: damaged. It says which server this directory belongs to, and nothing else; log and snapshots "
        "are other files. If the directory is certainly this server's own (never swapped or copied), "
        f"remove {NAME}: the next start writes it anew. See docs/howto/recover-a-damaged-server.md"
    )
