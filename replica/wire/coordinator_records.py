"""Replay of the record batches of a coordinator's topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from replica.core.coordinator_topic import Load, TopicCoordinator
from replica.wire.batch import walk
from replica.wire.record_fields import RecordError
from replica.wire.records import ControlType, read_control, read_records

E = TypeVar("E")


def replay_batches(
    coordinator: TopicCoordinator[Any, E],
    load: Load,
    data: bytes,
    since: int,
    decode: Callable[[bytes, bytes | None], E | None],
    unreadable: Callable[[Load, int, RecordError], None],
) -> int:
    """Replay the records from the offset `since` on. Return the offset after the last batch; `since` if there is no
    batch.

    A record of an unknown type is ignored, since a newer broker wrote it. A record that cannot be decoded is passed to
    `unreadable`, with its offset.
    """
    following = since
    for position, header in walk(data):
        following = header.next_offset
        producer = header.producer_id if header.transactional else None
        for record in read_records(data, position):
            if record.offset < since:
                continue
            if header.control:
                kind, _ = read_control(record)
                if kind is not None:
                    coordinator.replay_end(load, record.offset, header.producer_id, kind is ControlType.COMMIT)
            elif record.key is not None:
                try:
                    entry = decode(record.key, record.value)
                except RecordError as error:
                    unreadable(load, record.offset, error)
                else:
                    if entry is not None:
                        coordinator.replay(load, record.offset, entry, producer)
    return following
