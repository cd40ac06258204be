"""Write a changed membership back, so that the next start finds it in the configuration.

As in ZooKeeper, the members go into a new file with their version in its name, and the configuration names that file.
The data directory has this membership in any case, so nothing is lost if the files cannot be written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from zab.cli.zoo_cfg.keys import MEMBERSHIP, bare
from zab.config.properties_file import decode, parse
from zab.core.ensemble import Ensemble
from zab.host.durable_file import replace_file
from zab.wire.disk_files import dynamic_name, encode_dynamic

BACKUP: Final = ".bak"
_KEY: Final = "dynamicConfigFile"


def write_membership(config: Path, ensemble: Ensemble, sid: int) -> Path:
    """Write the members to a new file, keep a backup of the configuration, and let the configuration name the new file.

    If the new file has the client port of server `sid`, remove the keys of that port from the configuration. Return the
    path of the new file. It is absolute: the next start may have another working directory.
    """
    dynamic = config.with_name(dynamic_name(config.name, ensemble.version)).resolve()
    replace_file(dynamic, [encode_dynamic(ensemble).encode()], like=dynamic if dynamic.exists() else None)
    old = config.read_bytes()
    backup = config.with_name(config.name + BACKUP)
    replace_file(backup, [old], like=backup if backup.exists() else config)
    server = next((each for each in ensemble.servers if each.id == sid), None)
    drop = {_KEY} if server is None or server.client_port is None else {_KEY, "clientPort", "clientPortAddress"}
    replace_file(config, [without(decode(old), drop).encode(), f"{_KEY}={dynamic}\n".encode()], like=config)
    return dynamic


def without(text: str, names: set[str]) -> str:
    """Return the configuration without these keys and the members, with every comment in its place."""
    lines = text.splitlines()
    gone = {
        number
        for entry in parse(text)
        if bare(entry.key) in names or bare(entry.key).startswith(MEMBERSHIP)
        for number in range(entry.line, entry.last + 1)
    }
    return "".join(f"{line}\n" for number, line in enumerate(lines, start=1) if number not in gone)
