"""Verify, independently of the checkers, that an order of each partition proves a history legal.

An order has the value at each offset, so each event of a client can be compared with it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from harness.checkers.records.case import without_undone
from harness.checkers.records.history import (
    ALL,
    NOWHERE,
    Acked,
    Assigned,
    Ended,
    Failed,
    History,
    Polled,
    Sent,
    Sought,
    Trimmed,
)

Orders = Sequence[tuple[str, Sequence[tuple[int, str]]]]


def proves(orders: Orders, history: History) -> str | None:
    """Return the first event that does not fit the orders, or None."""
    history = without_undone(history)
    log = {partition: dict(order) for partition, order in orders}
    for partition, order in orders:
        if len(log[partition]) < len(order):
            return f"{partition} has two values at the same offset"
    return _writes(log, history) or _reads(log, history) or _seen(history)


def _seen(history: History) -> str | None:
    if not history.complete:
        return None
    read = {record.value for event in history.events if isinstance(event, Polled) for record in event.records}
    acked = {event.call: event.offset for event in history.events if isinstance(event, Acked)}
    gone: dict[str, int] = {}
    for event in reversed(history.events):
        if isinstance(event, Trimmed):
            gone[event.partition] = max(event.upto, gone.get(event.partition, 0))
        if not isinstance(event, Sent) or event.acks != ALL or event.call not in acked or event.value in read:
            continue
        if acked[event.call] >= gone.get(event.partition, NOWHERE):
            return f"{event.value!r} was never read"
    return None


def _writes(log: Mapping[str, Mapping[int, str]], history: History) -> str | None:
    sends = {event.call: event for event in history.events if isinstance(event, Sent)}
    senders = {sent.value: sent for sent in sends.values()}
    refused = {event.call for event in history.events if isinstance(event, Failed)}
    first: dict[str, int] = {}
    for partition, order in log.items():
        for offset, value in sorted(order.items()):
            sent = senders.get(value)
            if sent is None or sent.partition != partition or sent.call in refused:
                return f"{value!r} does not belong in {partition}"
            if value in first and sent.producer:
                return f"{value!r} is at two offsets"
            first.setdefault(value, offset)
    last: dict[tuple[int, str], int] = {}
    own: dict[tuple[int, str], int] = {}
    floors: dict[str, list[tuple[int, int]]] = {}
    for event in history.events:
        if isinstance(event, Sent) and event.value in first:
            offset = first[event.value]
            if event.producer and offset < last.get((event.producer, event.partition), 0):
                return f"{event.value!r} is before a record that its producer sent earlier"
            if event.producer:
                last[event.producer, event.partition] = offset
            if offset <= own.get((event.client, event.partition), NOWHERE):
                return f"{event.value!r} is before a record that was acknowledged to its client earlier"
            known = floors.get(event.partition, [])
            before = bisect_left(known, (event.at, 0))
            if before and known[before - 1][1] >= offset:
                return f"{event.value!r} is before a record that was known before its send"
        elif isinstance(event, Acked) and sends[event.call].acks == ALL:
            sent = sends[event.call]
            if event.offset != NOWHERE:
                if log.get(sent.partition, {}).get(event.offset) != sent.value:
                    return f"{sent.value!r} is not where it was acknowledged"
                _raise(floors.setdefault(sent.partition, []), event.at, event.offset)
                own[event.client, sent.partition] = max(event.offset, own.get((event.client, sent.partition), NOWHERE))
        elif isinstance(event, Polled):
            for partition, offset, _ in event.records:
                _raise(floors.setdefault(partition, []), event.at, offset)
    return None


def _raise(floors: list[tuple[int, int]], at: int, offset: int) -> None:
    """Add a known offset to the list, in which times and offsets ascend."""
    if not floors or offset > floors[-1][1]:
        floors.append((at, offset))


def _reads(log: Mapping[str, Mapping[int, str]], history: History) -> str | None:
    positions: dict[tuple[int, str], int] = {}
    gone: dict[str, int] = {}
    for event in history.events:
        match event:
            case Assigned():
                kept = {*event.goes_on}.difference(partition for partition, _ in event.begins)
                positions = {key: at for key, at in positions.items() if key[0] != event.client or key[1] in kept}
                begins = {(event.client, partition): at for partition, at in event.begins}
                positions |= {key: at for key, at in begins.items() if at != NOWHERE}
            case Sought():
                positions.pop((event.client, event.partition), None)
                if event.offset != NOWHERE:
                    positions[event.client, event.partition] = event.offset
            case Ended():
                positions = {key: at for key, at in positions.items() if key[0] != event.client}
            case Trimmed():
                gone[event.partition] = max(event.upto, gone.get(event.partition, 0))
            case Polled():
                wrong = _read(log, event, positions, gone)
                if wrong is not None:
                    return wrong
            case _:
                pass
    return None


def _read(
    log: Mapping[str, Mapping[int, str]], poll: Polled, positions: dict[tuple[int, str], int], gone: Mapping[str, int]
) -> str | None:
    spans = {span.partition: span for span in poll.spans}
    for partition in {**spans, **{record.partition: None for record in poll.records}}:
        read = [(offset, value) for where, offset, value in poll.records if where == partition]
        start = spans[partition].start if partition in spans else read[0][0]
        end = spans[partition].end if partition in spans else read[-1][0] + 1
        key = poll.client, partition
        before = positions.get(key, start)
        if start < before:
            return f"client {poll.client} goes back from {before} to {start} in {partition}"
        if any(not start <= offset < end for offset, _ in read):
            return f"client {poll.client} read from {start} to {end} in {partition}, but has an offset outside"
        held = log.get(partition, {})
        # The poll must have read every known record in its range, except deleted ones.
        known = [(offset, held[offset]) for offset in sorted(held) if before <= offset < end]
        if read != [each for each in known if each[0] >= gone.get(partition, 0) or each in read]:
            return f"client {poll.client} read from {before} to {end} in {partition}, but not the records there"
        positions[key] = end
    return None
