"""Records of `__consumer_offsets`, to the byte: tools that read that topic elsewhere can read ours, and ours theirs.

Keys begin with a version that says what the record is about; a value that is absent deletes what its key names.
"""

from __future__ import annotations

import struct
from typing import Final

from kraft_controller.core.names import TopicPartition
from replica.core.groups.messages import Position
from replica.core.groups.ready import GroupRecord, OffsetRecord, Record, SavedGroup, SavedMember

OFFSET_KEYS: Final = (0, 1)
GROUP_KEY: Final = 2
_OFFSET_VALUE: Final = 3
_OFFSET_VALUE_THAT_EXPIRES: Final = 1
_GROUP_VALUE: Final = 3


class RecordError(ValueError):
    """Bytes that are no such record: cut off, of a version that nobody knows, or with more in them than may be."""


# -- writing -------------------------------------------------------------------------------------------


def encode_key(record: Record) -> bytes:
    match record:
        case OffsetRecord(group, where):
            return struct.pack(">h", 1) + _text(group) + _text(where.topic) + struct.pack(">i", where.partition)
        case GroupRecord(group):
            return struct.pack(">h", GROUP_KEY) + _text(group)


def encode_value(record: Record) -> bytes | None:
    match record:
        case OffsetRecord(position=position):
            return None if position is None else _position(position)
        case GroupRecord(saved=saved):
            return None if saved is None else _group(saved)


def _position(position: Position) -> bytes:
    if position.expires_ms is not None:
        # Only this version has a place for it. It has none for the leader epoch, which old clients do not send.
        return (
            struct.pack(">hq", _OFFSET_VALUE_THAT_EXPIRES, position.offset)
            + _text(position.metadata)
            + struct.pack(">qq", position.committed_ms, position.expires_ms)
        )
    return (
        struct.pack(">hqi", _OFFSET_VALUE, position.offset, position.leader_epoch)
        + _text(position.metadata)
        + struct.pack(">q", position.committed_ms)
    )


def _group(saved: SavedGroup) -> bytes:
    parts = [
        struct.pack(">h", _GROUP_VALUE),
        _text(saved.protocol_type),
        struct.pack(">i", saved.generation),
        _text(saved.protocol),
        _text(saved.leader),
        struct.pack(">qi", saved.since_ms, len(saved.members)),
    ]
    for member in saved.members:
        parts += [
            _text(member.member),
            _text(member.instance),
            _text(member.client_id),
            _text(member.client_host),
            struct.pack(">ii", member.rebalance_timeout_ms, member.session_timeout_ms),
            struct.pack(">i", len(member.subscription)),
            member.subscription,
            struct.pack(">i", len(member.assignment)),
            member.assignment,
        ]
    return b"".join(parts)


def _text(text: str | None) -> bytes:
    if text is None:
        return struct.pack(">h", -1)
    data = text.encode()
    if len(data) > 0x7FFF:
        raise RecordError(f"a text of {len(data)} bytes; there is room for {0x7FFF}")
    return struct.pack(">h", len(data)) + data


# -- reading -------------------------------------------------------------------------------------------


def decode(key: bytes, value: bytes | None) -> Record | None:
    """None: about something that this broker does not know, written by a newer one. Raises `RecordError`."""
    reader = _Reader(key)
    version = reader.i16()
    if version in OFFSET_KEYS:
        group = reader.text()
        where = TopicPartition(reader.text(), reader.i32())
        reader.end()
        return OffsetRecord(group, where, None if value is None else _read_position(_Reader(value)))
    if version == GROUP_KEY:
        group = reader.text()
        reader.end()
        return GroupRecord(group, None if value is None else _read_group(_Reader(value)))
    return None


def _read_position(reader: _Reader) -> Position:
    version = reader.i16()
    if not 0 <= version <= 3:
        raise RecordError(f"the value of an offset in version {version}; 0 to 3 are known")
    offset = reader.i64()
    epoch = reader.i32() if version >= 3 else -1
    metadata = reader.text()
    committed = reader.i64()
    expires = reader.i64() if version == 1 else -1
    reader.end()
    # -1 says that it does not expire. Taken for a time, it would lie far in the past.
    return Position(offset, epoch, metadata, committed, None if expires < 0 else expires)


def _read_group(reader: _Reader) -> SavedGroup:
    version = reader.i16()
    if not 0 <= version <= 3:
        raise RecordError(f"the value of a group in version {version}; 0 to 3 are known")
    protocol_type = reader.text()
    generation = reader.i32()
    protocol = reader.maybe_text()
    leader = reader.maybe_text()
    since = reader.i64() if version >= 2 else -1
    members = []
    for _ in range(reader.count()):
        ident = reader.text()
        instance = reader.maybe_text() if version >= 3 else None
        client, host = reader.text(), reader.text()
        rebalance = reader.i32() if version >= 1 else None
        session = reader.i32()
        subscription, assignment = reader.bytes(), reader.bytes()
        members.append(
            SavedMember(
                ident,
                instance,
                client,
                host,
                session if rebalance is None else rebalance,
                session,
                subscription,
                assignment,
            )
        )
    reader.end()
    return SavedGroup(protocol_type, generation, protocol, leader, since, tuple(members))


# -- what consumers say of themselves --------------------------------------------------------------------


def topics_of(subscription: bytes) -> frozenset[str] | None:
    """Topics that a consumer wants, out of its metadata; None where they are not written as consumers write them."""
    try:
        reader = _Reader(subscription)
        if reader.i16() < 0:
            return None
        return frozenset(reader.text() for _ in range(reader.count()))
    except RecordError:
        return None


def assigned_in(assignment: bytes) -> tuple[TopicPartition, ...]:
    """What a consumer was assigned; nothing where it is not written as consumers write it."""
    try:
        reader = _Reader(assignment)
        reader.i16()
        return tuple(
            TopicPartition(topic, partition)
            for topic, partitions in [(reader.text(), reader.numbers()) for _ in range(reader.count())]
            for partition in partitions
        )
    except RecordError:
        return ()


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _take(self, size: int) -> bytes:
        if size < 0 or size > len(self._data) - self._at:
            raise RecordError(f"{size} bytes wanted at {self._at}, of {len(self._data)}")
        self._at += size
        return self._data[self._at - size : self._at]

    def i16(self) -> int:
        return int.from_bytes(self._take(2), "big", signed=True)

    def i32(self) -> int:
        return int.from_bytes(self._take(4), "big", signed=True)

    def i64(self) -> int:
        return int.from_bytes(self._take(8), "big", signed=True)

    def count(self) -> int:
        count = self.i32()
        if count < 0 or count > len(self._data) - self._at:  # each of them has at least one byte
            raise RecordError(f"{count} things announced in {len(self._data) - self._at} bytes")
        return count

    def numbers(self) -> list[int]:
        return [self.i32() for _ in range(self.count())]

    def maybe_text(self) -> str | None:
        size = self.i16()
        if size == -1:
            return None
        try:
            return self._take(size).decode()
        except UnicodeDecodeError as error:
            raise RecordError(f"no text at {self._at - size}: {error}") from None

    def text(self) -> str:
        text = self.maybe_text()
        if text is None:
            raise RecordError(f"no text at {self._at}, where there must be one")
        return text

    def bytes(self) -> bytes:
        return self._take(self.i32())

    def end(self) -> None:
        if self._at != len(self._data):
            raise RecordError(f"{len(self._data) - self._at} bytes more than it should have")
