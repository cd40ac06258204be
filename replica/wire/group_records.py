"""Records of `__consumer_offsets`, in Kafka's exact format.

The version at the start of a key is the type of the record: an offset or a group. A record without a value deletes the
offset or group of its key.
"""

from __future__ import annotations

from typing import Final

from kraft_controller.core.names import TopicPartition
from replica.core.groups.group_effects import GroupRecord, OffsetRecord, Record, SavedGroup, SavedMember
from replica.core.groups.group_messages import OffsetAndMetadata
from replica.wire.record_fields import RecordError as RecordError
from replica.wire.record_fields import RecordReader, pack, text_field

OFFSET_KEYS: Final = (0, 1)
GROUP_KEY: Final = 2
_OFFSET_VALUE: Final = 3
_OFFSET_VALUE_THAT_EXPIRES: Final = 1
_GROUP_VALUE: Final = 3


# -- writing -------------------------------------------------------------------------------------------


def encode_key(record: Record) -> bytes:
    match record:
        case OffsetRecord(group, where):
            return pack(">h", 1) + text_field(group) + text_field(where.topic) + pack(">i", where.partition)
        case GroupRecord(group):
            return pack(">h", GROUP_KEY) + text_field(group)


def encode_value(record: Record) -> bytes | None:
    match record:
        case OffsetRecord(position=position):
            return None if position is None else _position(position)
        case GroupRecord(saved=saved):
            return None if saved is None else _group(saved)


def _position(position: OffsetAndMetadata) -> bytes:
    if position.expires_ms is not None:
        # Only this version has an expiry time. It lacks the leader epoch, but clients that set an expiry time send
        # none.
        return (
            pack(">hq", _OFFSET_VALUE_THAT_EXPIRES, position.offset)
            + text_field(position.metadata)
            + pack(">qq", position.committed_ms, position.expires_ms)
        )
    return (
        pack(">hqi", _OFFSET_VALUE, position.offset, position.leader_epoch)
        + text_field(position.metadata)
        + pack(">q", position.committed_ms)
    )


def _group(saved: SavedGroup) -> bytes:
    parts = [
        pack(">h", _GROUP_VALUE),
        text_field(saved.protocol_type),
        pack(">i", saved.generation),
        text_field(saved.protocol),
        text_field(saved.leader),
        pack(">qi", saved.since_ms, len(saved.members)),
    ]
    for member in saved.members:
        parts += [
            text_field(member.member),
            text_field(member.instance),
            text_field(member.client_id),
            text_field(member.client_host),
            pack(">ii", member.rebalance_timeout_ms, member.session_timeout_ms),
            pack(">i", len(member.subscription)),
            member.subscription,
            pack(">i", len(member.assignment)),
            member.assignment,
        ]
    return b"".join(parts)


# -- reading -------------------------------------------------------------------------------------------


def decode(key: bytes, value: bytes | None) -> Record | None:
    """Decode a record. Return None for an unknown type, which a newer broker wrote. Raises `RecordError`."""
    reader = RecordReader(key)
    version = reader.i16()
    if version in OFFSET_KEYS:
        group = reader.text()
        where = TopicPartition(reader.text(), reader.i32())
        reader.end()
        return OffsetRecord(group, where, None if value is None else _read_position(RecordReader(value)))
    if version == GROUP_KEY:
        group = reader.text()
        reader.end()
        return GroupRecord(group, None if value is None else _read_group(RecordReader(value)))
    return None


def _read_position(reader: RecordReader) -> OffsetAndMetadata:
    version = reader.i16()
    if not 0 <= version <= 3:
        raise RecordError(f"the offset value has version {version}; versions 0 to 3 are supported")
    offset = reader.i64()
    epoch = reader.i32() if version >= 3 else -1
    metadata = reader.text()
    committed = reader.i64()
    expires = reader.i64() if version == 1 else -1
    reader.end()
    # -1 means that the offset does not expire. It is not a time.
    return OffsetAndMetadata(offset, epoch, metadata, committed, None if expires < 0 else expires)


def _read_group(reader: RecordReader) -> SavedGroup:
    version = reader.i16()
    if not 0 <= version <= 3:
        raise RecordError(f"the group value has version {version}; versions 0 to 3 are supported")
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


# -- consumer protocol ------------------------------------------------------------------------------------


def topics_of(subscription: bytes) -> frozenset[str] | None:
    """Return the topics of a consumer's subscription; None if the metadata has another format."""
    try:
        reader = RecordReader(subscription)
        if reader.i16() < 0:
            return None
        return frozenset(reader.text() for _ in range(reader.count()))
    except RecordError:
        return None


def assigned_in(assignment: bytes) -> tuple[TopicPartition, ...]:
    """Return the partitions of a consumer's assignment; empty if the assignment has another format."""
    try:
        reader = RecordReader(assignment)
        reader.i16()
        return tuple(
            TopicPartition(topic, partition)
            for topic, partitions in [(reader.text(), reader.numbers()) for _ in range(reader.count())]
            for partition in partitions
        )
    except RecordError:
        return ()
