"""Whose directory this is. Two servers that swap their disks would break promises that neither of them ever gave."""

from __future__ import annotations

from typing import Final

import msgpack

from zab.core.errors import ConfigError, DamagedError
from zab.core.zxid import ServerId
from zab.storage.disk import Disk, read_all, write_durably

NAME: Final = "identity"


def claim(disk: Disk, path: object, ensemble_name: str, me: ServerId) -> None:
    """The first to open a directory owns it; everybody else is turned away."""
    mine = [ensemble_name, me]
    if NAME not in disk.list():
        write_durably(disk, NAME, msgpack.packb(mine))
        return
    try:
        owner = msgpack.unpackb(read_all(disk, NAME))
        name, sid = owner
    except Exception as error:
        raise DamagedError(f"{path}/{NAME}: does not say whose directory this is: {error}") from error
    if owner != mine:
        raise ConfigError(
            f"{path} belongs to server {sid} of the ensemble {name!r}, and this is server {me} of {ensemble_name!r}; "
            f"give every server a directory of its own, and never a copy of another's"
        )
