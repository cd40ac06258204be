"""The membership, from the lines of a configuration."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from zab.cli.zoo.keys import MEMBERSHIP, family_of
from zab.cli.zoo.remembered import removed
from zab.cli.zoo.source import Source, Told
from zab.core.ensemble import Ensemble, Group, Role, Server, faults, parse_server, parts, shared_addresses
from zab.core.errors import ConfigError, ZabError
from zab.core.zxid import ServerId, Zxid
from zab.wire.disk_files import decode_number, dynamic_version

_LINE: Final = re.compile(r"(server|group|weight)\.\d+")
_NUMBER: Final = re.compile(r"\b\d+\b")


def read_ensemble(source: Source) -> Ensemble | None:
    """`None` where no line says `server.N`."""
    version = _version(source)
    lines = source.members()
    servers: list[Server] = []
    groups: list[Group] = []
    weights: dict[ServerId, int] = {}
    before = len(source.problems)
    for told in lines:
        try:
            if "," in told.value:
                source.problem(told, "there is a comma in it")
            elif told.name.startswith("server."):
                servers.append(parse_server(_first_address(source, told)))
            elif family_of(told.name) is None:
                source.problem(told, "a number follows the dot, as in group.1=1:2:3 and weight.1=2")
            else:
                _, _, found_groups, found_weights = parts(f"{told.name}={told.value}")
                groups += found_groups
                weights |= found_weights
        except ConfigError as error:
            source.problem(told, f"{error}".rpartition("': ")[2] or str(error))
    if not any(told.name.startswith("server.") for told in lines):
        for told in lines:
            source.problem(told, "there is no server.N line that it could be about")
        return None
    if len(source.problems) == before:  # else what is missing is missing because of these
        found = [*faults(servers, groups, weights), *shared_addresses(servers)]
        if not any(server.role is Role.PARTICIPANT for server in servers):
            found.append("no server.N line has a participant: at least one server has to vote")
        source.problems += [
            f"{_where(lines, each) or source.path}: the membership: {each}" for each in dict.fromkeys(found)
        ]
    if len(source.problems) > before:
        return None
    return Ensemble(tuple(servers), Zxid(version or 0), tuple(groups), weights)


def _where(lines: Iterable[Told], fault: str) -> str | None:
    """The last of the lines that a fault is about: of the one that it names, or of the server, or of its groups."""
    if named := _LINE.match(fault):
        return next((told.where for told in lines if told.name == named[0]), None)
    sids = set(_NUMBER.findall(fault.partition(" both ")[0]))
    if "group" in fault:
        found = [told.where for told in lines if told.name.startswith("group.") and sids & set(told.value.split(":"))]
        if found:
            return found[-1]
    return next((told.where for told in reversed([*lines]) if told.name.removeprefix("server.") in sids), None)


def _version(source: Source) -> int | None:
    """Lines in a file of their own are read into the others; its name says which version they are."""
    told = source.told.get("dynamicConfigFile")
    if told is None:
        return None
    for other in source.members():
        source.problem(other, "members stand in the file that dynamicConfigFile names, or here, not in both")
    before = set(source.told)
    path = Path(told.value)
    beside = source.path.parent / path
    if not path.exists() and beside.exists():  # it was written by a start in another directory
        path = beside
    if not path.exists():
        source.problem(told, "cannot be read: there is no such file")
        return None
    source.add_file(path)
    for name in set(source.told) - before:
        if family_of(name) is None or not name.startswith(MEMBERSHIP):
            source.problem(
                source.told[name], "only server.N, group.N and weight.N stand in a dynamic configuration file"
            )
            del source.told[name]
    return dynamic_version(path.name)


def _first_address(source: Source, told: Told) -> str:
    """`a:2888:3888|b:2888:3888;2181`: the second address is another way to the same server."""
    quorum_side, semicolon, client_side = told.value.partition(";")
    first, bar, _ = quorum_side.partition("|")
    if bar:
        source.warn(told, f"only the first address, {first}, is used")
    return f"{told.name}={first}{semicolon}{client_side}"


def read_id(source: Source, data: Path | None, ensemble: Ensemble | None, saved: Ensemble | None) -> int:
    """From `myid`, which says who of the ensemble this is. Alone, one may do without."""
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
            f"{file}: is missing, and the configuration lists servers: write this one's number: {hint}"
        )
        return 1
    except OSError as error:
        source.problems.append(f"{file}: cannot be read: {error.strerror}")
        return 1
    except ZabError as error:
        source.problems.append(f"{file}: {error}: it holds this server's number and nothing else")
        return 1
    if ensemble is not None and sid not in ensemble.by_id:
        known = ", ".join(str(each) for each in ensemble.by_id)
        source.problems.append(
            f"{file}: this is server {sid}, and there is no line server.{sid}; there are {known}{removed(saved, sid)}"
        )
    elif ensemble is None and not 0 < sid < 1 << 63:
        source.problems.append(f"{file}: {sid} is no server's number: they begin with 1")
    return sid


def check_peer_type(source: Source, ensemble: Ensemble | None, sid: int) -> None:
    told = source.told.get("peerType")
    asked: str | None = source.value("peerType", None)
    if told is None or asked is None:
        return
    if ensemble is None:
        if asked == Role.OBSERVER.value:
            source.problem(told, "an observer needs an ensemble to observe: there are no server.N lines")
        return
    server = ensemble.by_id.get(ServerId(sid))
    if server is not None and server.role.value != asked:
        source.warn(told, f"server.{sid} is listed as {server.role.value}, and that counts")
