"""The small text files of a log directory, in Kafka's formats.

A checkpoint file has a line with the version, one with the number of entries, and one for each entry.
`partition.metadata` has lines with a key and a value, the clean shutdown marker is JSON, and `meta.properties` is a
properties file.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from itertools import pairwise
from json import dumps, loads
from typing import Final, TypeAlias

from replica.storage.files import DamagedLog, MissingFile
from zab.config.properties_file import parse
from zab.storage.disk import FolderDisk, read_all, write_atomically

TopicPartition: TypeAlias = tuple[str, int]

HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
START_OFFSETS: Final = "log-start-offset-checkpoint"
CLEANED: Final = "cleaner-offset-checkpoint"
EPOCHS: Final = "leader-epoch-checkpoint"
METADATA: Final = "partition.metadata"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
_VERSION: Final = "0"


def encode(rows: Iterable[Iterable[object]]) -> bytes:
    lines = [" ".join(map(str, row)) for row in rows]
    return "\n".join([_VERSION, str(len(lines)), *lines, ""]).encode()


def decode(data: bytes, name: str, columns: int) -> list[list[str]]:
    """Decode a checkpoint file. Raises `DamagedLog` if it is malformed."""
    try:
        lines = data.decode().splitlines()
        version, count = lines[0], int(lines[1])
        rows = [line.split(" ") for line in lines[2:] if line]
    except (UnicodeDecodeError, ValueError, IndexError):
        raise DamagedLog(
            f"{name} is not a checkpoint file: it must be text that begins with a version and a count"
        ) from None
    if version != _VERSION:
        raise DamagedLog(f"{name} has version {version}, but only version {_VERSION} is supported")
    if not data.endswith(b"\n"):  # the last number may have lost digits
        raise DamagedLog(f"{name} ends in the middle of a line")
    if len(rows) != count:
        raise DamagedLog(f"{name} declares {count} entries, but contains {len(rows)}")
    for row in rows:
        if len(row) != columns or not all(_is_number(each) for each in row[columns - 2 :]):
            raise DamagedLog(f"{name} has the invalid line {' '.join(row)!r}")
    return rows


def read_offsets(files: FolderDisk, name: str) -> dict[TopicPartition, int]:
    try:
        data = read_all(files, name)
    except MissingFile:
        return {}
    return {(topic, int(partition)): int(offset) for topic, partition, offset in decode(data, name, 3)}


def write_offsets(files: FolderDisk, name: str, offsets: Mapping[TopicPartition, int]) -> None:
    rows = ((topic, partition, offset) for (topic, partition), offset in sorted(offsets.items()))
    write_atomically(files, name, encode(rows))


def decode_epochs(data: bytes, name: str = EPOCHS) -> list[tuple[int, int]]:
    entries = [(int(epoch), int(start)) for epoch, start in decode(data, name, 2)]
    for (epoch, start), (later, behind) in pairwise(entries):
        if epoch >= later or start >= behind:
            raise DamagedLog(f"{name}: epoch {later} at offset {behind} cannot follow epoch {epoch} at offset {start}")
    if entries and min(entries[0]) < 0:
        raise DamagedLog(f"{name}: {entries[0]} is not a valid entry of epoch and offset")
    return entries


# -- properties ----------------------------------------------------------------------------------------


def decode_properties(data: bytes) -> dict[str, str]:
    """Return the properties. Lines with a malformed escape are left out."""
    return {entry.key: entry.value for entry in parse(data.decode(errors="replace"), [])}


def encode_metadata(topic_id: bytes) -> bytes:
    """Return the content of `partition.metadata` for a topic id of 16 bytes."""
    return f"version: 0\ntopic_id: {urlsafe_b64encode(topic_id).decode().rstrip('=')}".encode()


def decode_metadata(data: bytes) -> bytes:
    pairs = [line.partition(": ") for line in data.decode(errors="replace").splitlines()]
    values = {key: value.strip() for key, _, value in pairs}
    try:
        if values["version"] != _VERSION:
            raise DamagedLog(f"{METADATA} has version {values['version']}, but only version {_VERSION} is supported")
        topic_id = urlsafe_b64decode(values["topic_id"] + "==")
    except KeyError as error:
        raise DamagedLog(f"{METADATA} lacks the key {error.args[0]}") from None
    except ValueError:
        raise DamagedLog(f"{METADATA} has a topic_id that is not base64: {values['topic_id']!r}") from None
    if len(topic_id) != 16:
        raise DamagedLog(f"{METADATA} has a topic_id of {len(topic_id)} bytes instead of 16")
    return topic_id


def encode_clean(broker_epoch: int) -> bytes:
    return dumps({"version": 0, "brokerEpoch": broker_epoch}).encode()


def decode_clean(data: bytes) -> int:
    """Return the broker epoch of the previous process, or -1 if the file lacks it or is malformed."""
    try:
        return int(loads(data)["brokerEpoch"])
    except (ValueError, KeyError, TypeError):
        return -1


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal()
