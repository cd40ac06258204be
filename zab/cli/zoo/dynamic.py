"""Writing a changed membership back, so that the next start is told what is.

As in the original: a new file with the members, its version in its name, and the configuration names it. What
the server remembers on its disk counts more than either, so a file that cannot be written loses nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from zab.cli.zoo.keys import MEMBERSHIP, bare
from zab.cli.zoo.properties import decode, parse
from zab.core.ensemble import Ensemble
from zab.wire.disk_files import dynamic_name, encode_dynamic

BACKUP: Final = ".bak"
_KEY: Final = "dynamicConfigFile"


def write_membership(config: Path, ensemble: Ensemble, sid: int) -> Path:
    """The name of the file that has the members now: in full, as the next start may be made from elsewhere."""
    dynamic = config.with_name(dynamic_name(config.name, ensemble.version)).resolve()
    replace(dynamic, encode_dynamic(ensemble).encode())
    old = config.read_bytes()
    replace(config.with_name(config.name + BACKUP), old, like=config)
    server = next((each for each in ensemble.servers if each.id == sid), None)
    drop = {_KEY} if server is None or server.client_port is None else {_KEY, "clientPort", "clientPortAddress"}
    replace(config, without(decode(old), drop).encode() + f"{_KEY}={dynamic}\n".encode())
    return dynamic


def without(text: str, names: set[str]) -> str:
    """The same configuration, every comment in its place, but for these keys and the members."""
    lines = text.splitlines()
    gone = {
        number
        for entry in parse(text)
        if bare(entry.key) in names or bare(entry.key).startswith(MEMBERSHIP)
        for number in range(entry.line, entry.last + 1)
    }
    return "".join(f"{line}\n" for number, line in enumerate(lines, start=1) if number not in gone)


def replace(path: Path, content: bytes, like: Path | None = None) -> None:
    """Replace the file atomically and durably: after a crash it is the old file or the new one.

    It keeps its permissions; a new file has those of `like`, because a configuration may hold passwords.
    """
    temporary = path.with_name(path.name + ".tmp")
    pattern = path if path.exists() else like
    with temporary.open("wb") as file:
        if pattern is not None:
            os.fchmod(file.fileno(), pattern.stat().st_mode & 0o777)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
