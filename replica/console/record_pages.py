"""The viewer of records: a bounded part of one partition, with filters, and single records as a whole."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape
from http import HTTPStatus
from typing import Final

import trio
from attrs import define, field, frozen

from kraft_controller.core.names import TopicPartition
from replica.console.cluster_view import ClusterView, Offsets, checked_topic
from replica.core.errors import ErrorCode, KafkaError
from replica.runtime.admin_client.fetched_records import FetchedRecords, wanted_records
from replica.runtime.admin_client.group_admin import offsets_at_leader
from replica.runtime.network.broker_connection import raise_for
from replica.wire.records import Record
from replica.wire.schemas.data_schemas import FETCH, FetchRequest, FetchRequestPartition, FetchTopic
from zab.admin.markup import NONE, number, pairs, size, table
from zab.console.byte_views import as_text, data_view
from zab.console.layout import field as labelled
from zab.console.layout import hidden, link, moment, problems, section, shown
from zab.console.page import Page, Refusal, Visit

SHOWN_MAX: Final = 200
"""The maximum number of records on a page."""
SHOWN_DEFAULT: Final = 50
SCANNED_MAX: Final = 20_000
"""A page stops after it has read this many records, whether they match the filters or not."""
SCANNED_BYTES_MAX: Final = 8 << 20
SCAN_S: Final = 4.0
FETCH_BYTES: Final = 1 << 20
INFLATED_BYTES_MAX: Final = 16 << 20
"""A batch that is larger after decompression is not shown."""
BATCH_RECORDS_MAX: Final = 100_000
"""A batch with more records is not shown."""
PREVIEW_BYTES: Final = 300
THREADS: Final = 2

_threads: Final = trio.CapacityLimiter(THREADS)


@frozen
class Filters:
    """key, value: bytes that must be in the key or in the value. committed: leave out open and aborted transactions."""

    key: bytes
    value: bytes
    committed: bool

    def accept(self, record: Record) -> bool:
        return self.key in (record.key or b"") and self.value in (record.value or b"")


@define
class Scan:
    """A scan of a partition, forwards from `first`. `following`: the offset after the last record that was read."""

    where: TopicPartition
    leader: int
    first: int
    following: int
    found: list[Record] = field(factory=list)
    read: int = 0
    read_bytes: int = 0
    problem: str = ""


class RecordPages:
    def __init__(self, view: ClusterView) -> None:
        self._view = view

    # -- a list of records -------------------------------------------------------------------------

    async def records(self, visit: Visit) -> Page:
        where, leader = await self._where(visit)
        count = visit.number("count", SHOWN_DEFAULT, 1, SHOWN_MAX)
        parameters = visit.parameters
        filters = Filters(
            parameters.get("key", "").encode(), parameters.get("value", "").encode(), parameters.get("committed") == "1"
        )
        offsets = await self._view.offsets({where: leader})
        begin, end = _range(where, offsets)
        first = await self._first(visit, where, leader, count, begin, end)
        scan = Scan(where, leader, first, first)
        with trio.move_on_after(SCAN_S) as limit:
            await self._scan(scan, filters, count, end)
        if limit.cancelled_caught:
            scan.problem = scan.problem or f"the brokers sent no more within {SCAN_S:g} s"
        body = f"<p>{link(f'Topic {where.topic}', '/topic', name=where.topic)}</p>{_search_form(visit, where, count)}"
        body += problems([scan.problem] if scan.problem else []) + _summary(visit, scan, count, begin, end)
        head = ("Offset", "Key", "Value", "Time", "Headers", "Size")
        body += table("Records", head, [_row(where, each) for each in scan.found], "no record matches in this range")
        return Page(f"Records of {where}", body)

    async def _first(self, visit: Visit, where: TopicPartition, leader: int, count: int, begin: int, end: int) -> int:
        """Return the offset to start at: as asked for, else that of the newest records; within the log."""
        since = visit.parameters.get("since", "").strip()
        wanted = visit.number("offset", max(end - count, begin))
        if since:
            found = await offsets_at_leader(self._view.client, leader, {where: _time(since)})
            wanted = found.get(where, -1)
            wanted = end if wanted < 0 else wanted
        return min(max(wanted, begin), end)

    async def _scan(self, scan: Scan, filters: Filters, count: int, end: int) -> None:
        """Read forwards until enough records match, the end, or a limit. Errors become the scan's problem."""
        while scan.following < end and len(scan.found) < count and not scan.problem:
            if scan.read >= SCANNED_MAX or scan.read_bytes >= SCANNED_BYTES_MAX:
                scan.problem = f"{number(scan.read)} records, {size(scan.read_bytes)}, were read: continue below"
                return
            try:
                fetched = await self._fetch(scan, FETCH_BYTES, filters.committed)
            except KafkaError as error:
                scan.problem = f"the records from offset {scan.following} on cannot be shown: {error}"
                return
            if fetched.next_offset <= scan.following and not fetched.records:
                scan.problem = fetched.damage or "no more can be read now: a transaction may be open"
                return
            for record in fetched.records:
                if len(scan.found) >= count:
                    return
                scan.read, scan.following = scan.read + 1, record.offset + 1
                if filters.accept(record):
                    scan.found.append(record)
            scan.following = max(scan.following, fetched.next_offset)
            scan.problem = fetched.damage or ""

    async def _fetch(self, scan: Scan, bytes_max: int, committed: bool) -> FetchedRecords:
        part = FetchRequestPartition(
            partition=scan.where.partition, fetch_offset=scan.following, partition_max_bytes=bytes_max
        )
        topics = [FetchTopic(topic=scan.where.topic, partitions=[part])]
        body = FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=bytes_max, isolation_level=int(committed), topics=topics
        )
        reply = await self._view.client.ask_broker(scan.leader, FETCH, body)
        raise_for(reply.error_code, f"broker {scan.leader}")
        found = reply.responses[0].partitions[0] if reply.responses and reply.responses[0].partitions else None
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"broker {scan.leader} sent no records of {scan.where}")
        raise_for(found.error_code, str(scan.where))
        data = found.records or b""
        scan.read_bytes += len(data)
        aborted = {(each.first_offset, each.producer_id) for each in found.aborted_transactions or ()}
        return await trio.to_thread.run_sync(
            wanted_records,
            data,
            scan.following,
            None,
            aborted,
            INFLATED_BYTES_MAX,
            BATCH_RECORDS_MAX,
            limiter=_threads,
        )

    # -- one record --------------------------------------------------------------------------------

    async def record(self, visit: Visit) -> Page:
        where, leader = await self._where(visit)
        visit.parameter("offset")
        offset = visit.number("offset", 0)
        scan = Scan(where, leader, offset, offset)
        fetched = await self._fetch(scan, FETCH_BYTES, False)
        record = next((each for each in fetched.records if each.offset == offset), None)
        if record is None:
            why = fetched.damage or f"{where} has no record at offset {offset}; it may have been deleted or compacted"
            raise Refusal(HTTPStatus.NOT_FOUND, why)
        rows = (
            ("time", moment(record.timestamp)),
            ("size of the key", NONE if record.key is None else number(len(record.key))),
            ("size of the value", NONE if record.value is None else number(len(record.value))),
            ("headers", number(len(record.headers))),
        )
        back = link(f"Records of {where}", "/records", topic=where.topic, partition=where.partition, offset=offset)
        body = f"<p>{back}</p>{pairs('Record', rows)}"
        body += section("Key", data_view(visit, "as_key", record.key))
        body += section("Value", data_view(visit, "as", record.value))
        headers = [(shown(name), _preview(content)) for name, content in record.headers[:SHOWN_MAX]]
        hidden_rows = max(len(record.headers) - SHOWN_MAX, 0)
        body += table("Headers", ("Name", "Value"), headers, "none", hidden_rows)
        return Page(f"Record {where} at offset {offset}", body)

    async def _where(self, visit: Visit) -> tuple[TopicPartition, int]:
        """Return the partition that a page is about, and its leader."""
        where = TopicPartition(visit.parameter("topic"), visit.number("partition", 0, 0, (1 << 31) - 1))
        metadata, _ = await checked_topic(self._view, where.topic)
        if where.partition not in {each.partition_index for each in metadata.topics[where.topic].partitions}:
            raise Refusal(HTTPStatus.NOT_FOUND, f"topic {where.topic} has no partition {where.partition}")
        leader = metadata.leaders([where.topic]).get(where)
        if leader is None:
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, f"{where} has no leader, so its records cannot be read")
        return where, leader


def _range(where: TopicPartition, offsets: Offsets) -> tuple[int, int]:
    if where not in offsets.found:
        raise Refusal(
            HTTPStatus.SERVICE_UNAVAILABLE, f"the offsets of {where} are unknown: {'; '.join(offsets.problems)}"
        )
    return offsets.found[where]


def _time(text: str) -> int:
    """Return a time in UTC, as forms send it, in milliseconds since 1970."""
    try:
        return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise Refusal(HTTPStatus.BAD_REQUEST, f"{text[:40]!r} is not a time like 2026-01-31T12:00") from None


# -- markup --------------------------------------------------------------------------------------------


def _search_form(visit: Visit, where: TopicPartition, count: int) -> str:
    def box(name: str, kind: str = "text", more: str = "") -> str:
        value = escape(visit.parameters.get(name, ""))
        return f'<input type="{kind}" name="{name}" value="{value}"{more}>'

    committed = " checked" if visit.parameters.get("committed") == "1" else ""
    fields = (
        hidden("topic", where.topic),
        labelled("Partition", f'<input type="number" name="partition" min="0" value="{where.partition}">'),
        labelled("From offset", box("offset", "number", ' min="0" placeholder="the newest"')),
        labelled("Or from time, UTC", box("since", "datetime-local")),
        labelled("Key contains", box("key", "search")),
        labelled("Value contains", box("value", "search")),
        labelled("At most", f'<input type="number" name="count" min="1" max="{SHOWN_MAX}" value="{count}">'),
        f'<label><input type="checkbox" name="committed" value="1"{committed}> committed only</label>',
        "<button>Show</button>",
    )
    return f'<section><form class="search" role="search">{"".join(fields)}</form></section>'


def _summary(visit: Visit, scan: Scan, count: int, begin: int, end: int) -> str:
    """Return the range that was read, and links to the records before and after it."""
    steps = []
    if scan.first > begin:
        steps.append(f'<a href="{escape(visit.url(offset=max(scan.first - count, begin), since=None))}">earlier</a>')
    if scan.following < end:
        steps.append(f'<a href="{escape(visit.url(offset=scan.following, since=None))}">later</a>')
    log = f"The partition has offsets {number(begin)} to {number(end)}."
    if scan.following <= scan.first:
        return f"<p>{log} {' '.join(steps)}</p>"
    read = f"Read: {number(scan.first)} to {number(scan.following - 1)}, {number(scan.read)} records."
    return f"<p>{log} {read} Shown: {number(len(scan.found))}. {' '.join(steps)}</p>"


def _row(where: TopicPartition, record: Record) -> tuple[str, ...]:
    here = link(str(record.offset), "/record", topic=where.topic, partition=where.partition, offset=record.offset)
    length = size(len(record.key or b"") + len(record.value or b""))
    key, value = _preview(record.key), _preview(record.value)
    return here, key, value, moment(record.timestamp), str(len(record.headers)), length


def _preview(content: bytes | None) -> str:
    """Return the beginning of a key or value as HTML: as text if possible, else in hexadecimal digits."""
    if content is None:
        return "<small>null</small>"
    length = PREVIEW_BYTES
    texts = (as_text(content[: PREVIEW_BYTES - split]) for split in range(4))  # the cut may split a character
    text = next((each for each in texts if each is not None), None)
    if text is None:
        length = PREVIEW_BYTES // 6
        text = content[:length].hex(" ")
    more = f" <small>\N{HORIZONTAL ELLIPSIS} {number(len(content))} bytes</small>" * (len(content) > length)
    return f"<code class=bytes>{escape(text)}</code>{more}"
