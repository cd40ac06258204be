"""The members of the ensemble, from the lines of the configuration."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from zab.cli.zoo_cfg.keys import MEMBERSHIP, TABLE
from zab.cli.zoo_cfg.remembered_members import removed
from zab.cli.zoo_cfg.zoo_source import ZooSource
from zab.config.config_source import ConfigEntry
from zab.core.ensemble import Ensemble, Group, Role, Server, faults, parse_server, parts, shared_addresses
from zab.core.errors import ConfigError, ZabError
from zab.core.zxid import ServerId, Zxid
from zab.wire.disk_files import decode_number, dynamic_version

_LINE: Final = re.compile(r"(server|group|weight)\.\d+")
_NUMBER: Final = re.compile(r"\b\d+\b")


def read_ensemble(source: ZooSource) -> Ensemble | None:
    """Return the ensemble; None if no line `server.N` exists or the lines are invalid. Record mistakes as problems."""
    version = _version(source)
    lines = source.members()
    servers: list[Server] = []
    groups: list[Group] = []
    weights: dict[ServerId, int] = {}
    before = len(source.problems)
    for entry in lines:
        try:
            if "," in entry.value:
                source.problem(entry.key, "a comma is not allowed in the value")
            elif entry.key.startswith("server."):
                servers.append(parse_server(_first_address(source, entry)))
            elif TABLE.family_of(entry.key) is None:
                source.problem(entry.key, "a number must follow the dot, as in group.1=1:2:3 and weight.1=2")
            else:
                _, _, found_groups, found_weights = parts(f"{entry.key}={entry.value}")
                groups += found_groups
                weights |= found_weights
        except ConfigError as error:
            source.problem(entry.key, error.why)
    if not any(entry.key.startswith("server.") for entry in lines):
        for entry in lines:
            source.problem(entry.key, "there is no server.N line that it could belong to")
        return None
    if len(source.problems) == before:  # earlier problems may cause others here
        found = [*faults(servers, groups, weights), *shared_addresses(servers)]
        if not any(server.role is Role.PARTICIPANT for server in servers):
            found.append("no server.N line has a participant: at least one server has to vote")
        source.problems += [
            f"{_where(lines, each) or source.path}: the membership: {each}" for each in dict.fromkeys(found)
        ]
    if len(source.problems) > before:
        return None
    return Ensemble(tuple(servers), Zxid(version or 0), tuple(groups), weights)


def _where(lines: Iterable[ConfigEntry], fault: str) -> str | None:
    """Return the place of the line to blame for a fault; None if there is no such line.

    If the fault begins with a key, return the line of that key. If the fault is about groups, return the last `group.G`
    line with a server that the fault names. Else, or without such a `group.G` line, return the last `server.N` line of
    a server that the fault names.
    """
    if named := _LINE.match(fault):
        return next((entry.place for entry in lines if entry.key == named[0]), None)
    sids = set(_NUMBER.findall(fault.partition(" have ")[0]))
    if "group" in fault:
        mine = [entry for entry in lines if entry.key.startswith("group.")]
        found = [entry.place for entry in mine if sids & set(entry.value.split(":"))]
        if found:
            return found[-1]
    return next((entry.place for entry in reversed([*lines]) if entry.key.removeprefix("server.") in sids), None)


def _version(source: ZooSource) -> int | None:
    """Read the members from the file that dynamicConfigFile names. Return the version in its name, or None."""
    entry = source.entries.get("dynamicConfigFile")
    if entry is None:
        return None
    for other in source.members():
        source.problem(other.key, "list the members here or in the file that dynamicConfigFile names, not in both")
    before = set(source.entries)
    path = Path(entry.value)
    beside = source.path.parent / path
    if not path.exists() and beside.exists():  # a relative name may be meant for another working directory
        path = beside
    if not path.exists():
        source.problem(entry.key, "cannot be read: there is no such file")
        return None
    source.add_file(path)
    for name in set(source.entries) - before:
        if TABLE.family_of(name) is None or not name.startswith(MEMBERSHIP):
            source.problem(name, "only server.N, group.N and weight.N are allowed in a dynamic configuration file")
            del source.entries[name]
    return dynamic_version(path.name)


def _first_address(source: ZooSource, entry: ConfigEntry) -> str:
    """Return the line with its first address only: `a:2888:3888|b:2888:3888;2181` names two ways to one server."""
    quorum_side, semicolon, client_side = entry.value.partition(";")
    first, bar, _ = quorum_side.partition("|")
    if bar:
        source.warn(entry.key, f"only the first address, {first}, is used")
    return f"{entry.key}={first}{semicolon}{client_side}"


def read_id(source: ZooSource, data: Path | None, ensemble: Ensemble | None, saved: Ensemble | None) -> int:
    """Return the number of this server, from the file `myid`, or 1 if the file cannot be read.

    Record a problem if the file or the number is unusable. Only a standalone server may lack the file.
    """
    if data is None:
        return 1
    file = data / "myid"
    try:
        sid = decode_number(file.read_bytes())
    except FileNotFoundError:
        if ensemble is None:
            return 1
        hint = f"echo {ensemble.servers[0].id} > {file}"
        source.problems.append(
            f"{file}: is missing, but the configuration lists servers: write this server's number into it, as by "
            f"`{hint}`"
        )
        return 1
    except OSError as error:
        source.problems.append(f"{file}: cannot be read: {error.strerror}")
        return 1
    except ZabError as error:
        source.problems.append(f"{file}: {error}: it must hold this server's number and nothing else")
        return 1
    if ensemble is not None and sid not in ensemble.by_id:
        known = ", ".join(str(each) for each in ensemble.by_id)
        source.problems.append(
            f"{file}: this is server {sid}, but there is no line server.{sid}; the servers are {known}"
            f"{removed(saved, sid)}"
        )
    elif ensemble is None and not 0 < sid < 1 << 63:
        source.problems.append(f"{file}: {sid} is not a valid server number, which is from 1 to {(1 << 63) - 1}")
    return sid


def check_peer_type(source: ZooSource, ensemble: Ensemble | None, sid: int) -> None:
    entry = source.entries.get("peerType")
    asked: str | None = source.value("peerType", None)
    if entry is None or asked is None:
        return
    if ensemble is None:
        if asked == Role.OBSERVER.value:
            source.problem(entry.key, "an observer needs an ensemble, but there are no server.N lines")
        return
    server = ensemble.by_id.get(ServerId(sid))
    if server is not None and server.role.value != asked:
        source.warn(entry.key, f"server.{sid} is listed as {server.role.value}, which takes precedence")
