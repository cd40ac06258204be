"""The names of ZooKeeper's files that this program reads or writes, and the content of the small ones.

<dataDir>/myid                       <dataDir>/version-2/snapshot.<zxid>[.gz|.snappy]
<dataDir>/version-2/acceptedEpoch    <dataLogDir>/version-2/log.<zxid of its first transaction>
<dataDir>/version-2/currentEpoch     <config>.dynamic.<version of the membership>
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from typing import Final

from attrs import frozen

from zab.core.ensemble import Ensemble
from zab.core.errors import DamagedError

VERSION_DIRECTORY: Final = "version-2"
ACCEPTED_EPOCH: Final = "acceptedEpoch"
CURRENT_EPOCH: Final = "currentEpoch"
MYID: Final = "myid"

_NAME: Final = re.compile(r"(log|snapshot)\.([0-9a-f]{1,16})(?:\.(gz|snappy))?", re.ASCII)
_NUMBER: Final = re.compile(r"[ \t]*(-?[0-9]{1,19})[ \t\r]*", re.ASCII)
_DYNAMIC: Final = re.compile(r".+\.dynamic\.([0-9a-f]{1,16})", re.ASCII)


class Compression(Enum):
    NONE = ""
    GZIP = ".gz"
    SNAPPY = ".snappy"


@frozen(order=True)
class DataFile:
    """A log or a snapshot, sorted by the zxid in its name."""

    zxid: int
    name: str
    is_log: bool
    compression: Compression = Compression.NONE


def snapshot_name(zxid: int, compression: Compression = Compression.NONE) -> str:
    return f"snapshot.{zxid:x}{compression.value}"


def parse_name(name: str) -> DataFile | None:
    """Return the log or snapshot with this name, or None for the name of any other file."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    kind, zxid, suffix = match.groups()
    if kind == "log":
        return None if suffix else DataFile(int(zxid, 16), name, True)
    return DataFile(int(zxid, 16), name, False, Compression(f".{suffix}" if suffix else ""))


def snapshots_newest_first(names: Iterable[str]) -> list[DataFile]:
    """Return the snapshots, the newest first. A reader tries them in this order until one is complete."""
    found = [file for name in names if (file := parse_name(name)) and not file.is_log]
    return sorted(found, key=lambda file: file.zxid, reverse=True)


def logs_behind(names: Iterable[str], zxid: int) -> list[DataFile]:
    """Return the logs that may hold transactions after `zxid`, oldest first.

    The first one may begin long before `zxid`: a log's name tells only where it begins.
    """
    logs = sorted(file for name in names if (file := parse_name(name)) and file.is_log)
    first = max((index for index, file in enumerate(logs) if file.zxid <= zxid), default=0)
    return logs[first:]


# -- numbers and memberships in files ------------------------------------------------------------------


def decode_number(raw: bytes) -> int:
    """Decode an epoch or a server id, the decimal number in the first line. Raise `DamagedError` for any other line."""
    match = _NUMBER.fullmatch(raw.decode("latin-1").partition("\n")[0])
    if match is None:
        raise DamagedError(f"not a number: {raw[:40]!r}")
    return int(match[1])


def encode_number(number: int) -> bytes:
    return str(number).encode()


def dynamic_version(name: str) -> int | None:
    """Return the membership's version in the name of a dynamic configuration file, or None for any other name."""
    match = _DYNAMIC.fullmatch(name)
    return None if match is None else int(match[1], 16)


def dynamic_name(config_name: str, version: int) -> str:
    return f"{config_name}.dynamic.{version:x}"


def encode_dynamic(ensemble: Ensemble) -> str:
    lines = ensemble.text().split("\n")
    return "".join(f"{line}\n" for line in lines if not line.startswith("version="))
