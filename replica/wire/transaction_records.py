"""Records of `__transaction_state`, in Kafka's exact format.

A key is a version and a transactional id. A record without a value deletes the transactional id.
"""

from __future__ import annotations

from itertools import groupby
from typing import Final

from kraft_controller.core.names import TopicPartition
from replica.core.transactions.transaction_effects import Saved, TxnRecord
from replica.core.transactions.transaction_states import TxnState
from replica.wire.record_fields import RecordError as RecordError
from replica.wire.record_fields import RecordReader, pack, text_field

_KEY: Final = 0
_VALUE: Final = 0
_NULL: Final = -1
_STATUS: Final = {
    TxnState.EMPTY: 0,
    TxnState.ONGOING: 1,
    TxnState.PREPARE_COMMIT: 2,
    TxnState.PREPARE_ABORT: 3,
    TxnState.COMPLETE_COMMIT: 4,
    TxnState.COMPLETE_ABORT: 5,
}
"""The number of each state in records. The numbers must not change, because records are stored."""
_STATE: Final = {number: state for state, number in _STATUS.items()}


def encode_key(record: TxnRecord) -> bytes:
    return pack(">h", _KEY) + text_field(record.id)


def encode_value(record: TxnRecord) -> bytes | None:
    saved = record.saved
    if saved is None:
        return None
    head = pack(">hqhib", _VALUE, saved.producer, saved.epoch, saved.timeout_ms, _STATUS[saved.state])
    return head + _partitions(saved) + pack(">qq", saved.updated_ms, saved.started_ms)


def _partitions(saved: Saved) -> bytes:
    if saved.state is TxnState.EMPTY:
        return pack(">i", _NULL)
    topics = [(name, [each.partition for each in group]) for name, group in groupby(saved.partitions, _topic)]
    parts = [pack(">i", len(topics))]
    for name, numbers in topics:
        parts += [text_field(name), pack(f">i{len(numbers)}i", len(numbers), *numbers)]
    return b"".join(parts)


def _topic(where: TopicPartition) -> str:
    return where.topic


def decode(key: bytes, value: bytes | None) -> TxnRecord | None:
    """Decode a record. Return None for an unknown type, which a newer broker wrote. Raises `RecordError`."""
    reader = RecordReader(key)
    if reader.i16() != _KEY:
        return None
    name = reader.text()
    reader.end()
    return TxnRecord(name, None if value is None else _read(RecordReader(value)))


def _read(reader: RecordReader) -> Saved:
    version = reader.i16()
    if version != _VALUE:
        raise RecordError(f"the transaction value has version {version}; version {_VALUE} is supported")
    producer, epoch, timeout = reader.i64(), reader.i16(), reader.i32()
    status = reader.i8()
    state = _STATE.get(status)
    if state is None:
        raise RecordError(f"unknown transaction state {status}; {sorted(_STATE)} are supported")
    partitions = []
    for _ in range(reader.maybe_count() or 0):
        topic = reader.text()
        partitions += [TopicPartition(topic, number) for number in reader.numbers()]
    updated, started = reader.i64(), reader.i64()
    reader.end()
    return Saved(producer, epoch, timeout, state, tuple(sorted(partitions)), updated, started)
