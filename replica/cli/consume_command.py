"""`zab-broker consume`: print records of a topic, alone or as a member of a consumer group."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Collection
from typing import Final

import click
import trio
from attrs import define

from kraft_controller.core.names import TopicPartition
from replica.cli.bootstrap import broker_options, with_client
from replica.cli.group_member import COMMIT_S, HEARTBEAT_S, GroupMember, Rebalance
from replica.cli.topic import leaders_of
from replica.core.errors import ErrorCode, KafkaError
from replica.runtime.admin_client.fetched_records import wanted_records
from replica.runtime.network.broker_client import PAUSE_S, Client
from replica.runtime.network.broker_connection import Unreachable, raise_for
from replica.wire.records import Record
from replica.wire.schemas.data_schemas import (
    FETCH,
    LIST_OFFSETS,
    FetchRequest,
    FetchRequestPartition,
    FetchTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from zab.cli.kit.failures import DONE, Failed, Misused
from zab.cli.kit.options import check_exclusive
from zab.cli.kit.output import progress
from zab.cli.kit.verb_group import Arguments, connected_command

LATEST: Final = -1
EARLIEST: Final = -2
WAIT_MS: Final = 500
PARTITION_BYTES_MAX: Final = 1 << 20
LEAVES_S: Final = 10.0
"""The time limit for the last commit and the departure from the group together."""
ISOLATION: Final = {"read_uncommitted": 0, "read_committed": 1}


@define
class Position:
    where: TopicPartition
    offset: int
    end: int | None
    """The offset at which to stop; None: never."""

    @property
    def done(self) -> bool:
        return self.end is not None and self.offset >= self.end


NUMBER: Final = click.IntRange(0)
Found = tuple[Position, Record, int]
"""The position in a partition, a record, and the offset at which to continue after this record."""


@click.argument("topic")
@click.option("--partition", type=int, multiple=True, metavar="N", help="Only this partition. May be repeated.")
@click.option("--group", metavar="NAME", help="Join this consumer group: read and commit its offsets.")
@click.option(
    "--from-beginning",
    is_flag=True,
    help="Start at the first record. With --group, only in partitions without a committed offset.",
)
@click.option("--offset", type=NUMBER, metavar="N", help="Start at this offset in each partition.")
@click.option("--since", type=NUMBER, metavar="MS", help="Start at the first record at or after this Unix time, in ms.")
@click.option("--count", type=NUMBER, metavar="N", help="Print at most N records.")
@click.option(
    "--until-end",
    is_flag=True,
    help="Stop at the end that each partition had at the start of the command; with --group, after the last rebalance.",
)
@click.option(
    "--isolation",
    type=click.Choice(tuple(ISOLATION)),
    default="read_uncommitted",
    show_default=True,
    help="read_committed omits records of aborted transactions, and reads only up to the first open transaction.",
)
@click.option("--keys", is_flag=True, help="Print key, tab, value.")
@click.option("--json", is_flag=True, help="Print each record as a JSON object with all its fields.")
async def _consume(client: Client, arguments: Arguments) -> int:
    check_exclusive(arguments, "--from-beginning", "--offset", "--since")
    if arguments.group is not None:
        return await _consume_in_group(client, arguments)
    positions = await _start(client, arguments)
    left, isolation = arguments.count, ISOLATION[arguments.isolation]
    while (left is None or left > 0) and not all(each.done for each in positions):

        async def once() -> list[Found]:
            return await _fetch(client, [each for each in positions if not each.done], isolation)

        for position, record, after in (await client.patiently(once))[:left]:
            _show(arguments, position.where, record)
            position.offset = after
            left = None if left is None else left - 1
        sys.stdout.flush()
    return DONE


_HELP: Final = """Read records of a topic, and print each on a line.

\b
zab-broker consume orders                                    new records, until Ctrl-C
zab-broker consume orders --from-beginning --until-end
zab-broker consume orders --partition 2 --offset 1000 --count 10 --json
zab-broker consume orders --from-beginning --keys | sort
zab-broker consume orders --isolation read_committed         no records of open or aborted transactions
zab-broker consume orders --group billing --from-beginning   as a member of a group, from its offsets on

Without --group no offsets are committed. With it the members of the group share the partitions; the offsets of printed
records are committed every five seconds and at the end, also after Ctrl-C. A record may be printed twice, for example
after a crash. A partition without a committed offset starts at the end, or with --from-beginning at the first record.
Bytes that are not UTF-8 are printed with escapes."""
consume: Final = connected_command("consume", _HELP, _consume, with_client, broker_options())


# -- as a member of a group ------------------------------------------------------------------------------------


async def _consume_in_group(client: Client, arguments: Arguments) -> int:
    if not arguments.group:
        raise Misused("--group: the group name must not be empty")
    if arguments.partition or arguments.offset is not None or arguments.since is not None:
        raise Misused("--group excludes --partition, --offset and --since: the group determines partitions and offsets")
    reader = GroupReader(client, arguments, GroupMember(client, arguments.group, arguments.topic))
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:

            async def until_told() -> None:
                async for _ in signals:
                    reader.stop()
                    return

            nursery.start_soon(until_told)
            await reader.run()
            nursery.cancel_scope.cancel()
    return DONE


class GroupReader:
    """Reads the partitions that the group assigns, until `stop` or the end, then commits and leaves the group."""

    def __init__(self, client: Client, arguments: Arguments, member: GroupMember) -> None:
        self.positions: list[Position] | None = None
        """The positions in the assigned partitions; None until the first assignment, and during a rebalance."""
        self._client = client
        self._arguments = arguments
        self._member = member
        self._left: int | None = arguments.count
        self._scope = trio.CancelScope()
        self._commit_at = self._heartbeat_at = 0.0
        self._committed: dict[int, int] = {}
        self._read_at = 0.0

    def stop(self) -> None:
        self._scope.cancel()

    async def run(self) -> None:
        try:
            with self._scope:
                while not self._is_over():
                    try:
                        await self._read_a_generation()
                    except Rebalance:
                        self.positions = None
        finally:
            with trio.move_on_after(LEAVES_S, shield=True):
                await self._leave()

    def _is_over(self) -> bool:
        if self._left is not None and self._left <= 0:
            return True
        until_end: bool = self._arguments.until_end
        return until_end and self.positions is not None and all(each.done for each in self.positions)

    async def _read_a_generation(self) -> None:
        numbers = await self._member.join()
        progress(f"group {self._member.group}: generation {self._member.generation}, partitions {_listed(numbers)}")
        self.positions = await self._client.patiently(lambda: self._begin(numbers))
        now = trio.current_time()
        self._commit_at, self._heartbeat_at, self._read_at = now + COMMIT_S, now + HEARTBEAT_S, now
        while not self._is_over():
            await self._read_once(self.positions)
            await self._keep_up()

    async def _begin(self, numbers: list[int]) -> list[Position]:
        """Return the positions to start at: the committed offset of each partition; without one, the log end, or with
        --from-beginning the log start."""
        if not numbers:
            return []
        committed = await self._member.committed(numbers)
        leaders = await leaders_of(self._client, self._member.topic, numbers)
        isolation, until_end = ISOLATION[self._arguments.isolation], self._arguments.until_end
        made = []
        for where, leader in leaders.items():
            end = await _look_up(self._client, leader, where, LATEST, isolation)
            first = committed.get(where.partition)
            if first is None:
                first = await _first(self._client, leader, where, self._arguments, end)
            made.append(Position(where, first, end if until_end else None))
        self._committed = committed
        return made

    async def _read_once(self, positions: list[Position]) -> None:
        """Print the records of one fetch. Ignore temporary errors until no fetch has succeeded for `patience_s`."""
        wanted = [each for each in positions if not each.done]
        found: list[Found] = []
        if wanted:
            try:
                found = await _fetch(self._client, wanted, ISOLATION[self._arguments.isolation])
                self._read_at = trio.current_time()
            except (KafkaError, Unreachable) as error:
                passes = isinstance(error, Unreachable) or error.code.retriable
                if not passes or trio.current_time() - self._read_at > self._client.settings.patience_s:
                    raise
        if not found:
            await trio.sleep(PAUSE_S)
        for position, record, after in found[: self._left]:
            _show(self._arguments, position.where, record)
            position.offset = after
            self._left = None if self._left is None else self._left - 1
        sys.stdout.flush()

    async def _keep_up(self) -> None:
        """Commit offsets and send a heartbeat if they are due. If the heartbeat raises `Rebalance`, commit once more,
        then raise it again."""
        now = trio.current_time()
        if now >= self._commit_at:
            await self._commit()
            self._commit_at = now + COMMIT_S
        if now >= self._heartbeat_at:
            self._heartbeat_at = now + HEARTBEAT_S
            try:
                await self._member.heartbeat()
            except Rebalance:
                await self._commit()
                raise

    async def _commit(self) -> None:
        offsets = {each.where.partition: each.offset for each in self.positions or ()}
        fresh = {number: offset for number, offset in offsets.items() if self._committed.get(number) != offset}
        await self._member.commit(fresh)
        self._committed.update(fresh)

    async def _leave(self) -> None:
        for last in (self._commit, self._member.leave):
            try:
                await last()
            except (Rebalance, KafkaError, Unreachable) as error:
                progress(f"group {self._member.group}: {error}")


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"


# -- start offsets ---------------------------------------------------------------------------------------------


async def _start(client: Client, arguments: Arguments) -> list[Position]:
    async def once() -> list[Position]:
        leaders = await leaders_of(client, arguments.topic, arguments.partition)
        isolation = ISOLATION[arguments.isolation]
        ends = {where: await _look_up(client, leader, where, LATEST, isolation) for where, leader in leaders.items()}
        return [
            Position(
                where,
                await _first(client, leaders[where], where, arguments, ends[where]),
                ends[where] if arguments.until_end else None,
            )
            for where in leaders
        ]

    positions = await client.patiently(once)
    for each in positions:
        if arguments.offset is not None and each.end is not None and arguments.offset > each.end:
            progress(f"{each.where} ends at offset {each.end}: it has no records from offset {arguments.offset} on")
    return positions


async def _first(client: Client, leader: int, where: TopicPartition, arguments: Arguments, end: int) -> int:
    if arguments.offset is not None:
        first: int = arguments.offset
        return first
    if arguments.from_beginning:
        return await _look_up(client, leader, where, EARLIEST)
    if arguments.since is not None:
        found = await _look_up(client, leader, where, arguments.since, ISOLATION[arguments.isolation])
        return end if found < 0 else found
    return end


async def _look_up(client: Client, leader: int, where: TopicPartition, timestamp: int, isolation: int = 0) -> int:
    part = ListOffsetsPartition(partition_index=where.partition, timestamp=timestamp)
    topics = [ListOffsetsTopic(name=where.topic, partitions=[part])]
    body = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics)
    reply = await client.ask_broker(leader, LIST_OFFSETS, body)
    answer = reply.topics[0].partitions[0]
    raise_for(answer.error_code, str(where))
    offset: int = answer.offset
    return offset


async def _fetch(client: Client, positions: list[Position], isolation: int) -> list[Found]:
    """Fetch from each leader once. A leader without records waits a little before it answers."""
    leaders = await client.leaders({each.where.topic for each in positions})
    by_leader: dict[int, list[Position]] = {}
    for position in positions:
        if position.where not in leaders:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"no leader of {position.where}")
        by_leader.setdefault(leaders[position.where], []).append(position)
    found: list[Found] = []
    for leader, theirs in by_leader.items():
        reply = await client.ask_broker(leader, FETCH, _body(theirs, WAIT_MS // len(by_leader), isolation))
        raise_for(reply.error_code, f"broker {leader}")
        known = {each.where: each for each in theirs}
        for topic in reply.responses:
            for part in topic.partitions:
                position = known[TopicPartition(topic.topic, part.partition_index)]
                if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    position.offset = await _back_in_range(client, leader, position)
                    continue
                raise_for(part.error_code, str(position.where))
                aborted = {(each.first_offset, each.producer_id) for each in part.aborted_transactions or ()}
                found.extend(_records(position, part.records or b"", aborted))
    return found


def _body(positions: list[Position], wait_ms: int, isolation: int) -> FetchRequest:
    parts = [
        FetchRequestPartition(
            partition=each.where.partition, fetch_offset=each.offset, partition_max_bytes=PARTITION_BYTES_MAX
        )
        for each in positions
    ]
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        isolation_level=isolation,
        topics=[FetchTopic(topic=positions[0].where.topic, partitions=parts)],
    )


async def _back_in_range(client: Client, leader: int, position: Position) -> int:
    start = await _look_up(client, leader, position.where, EARLIEST)
    if position.offset > start:
        raise Failed(f"{position.where} has no offset {position.offset} yet")
    progress(f"{position.where}: records before offset {start} were deleted")
    return start


def _records(position: Position, data: bytes, aborted: Collection[tuple[int, int]] = ()) -> list[Found]:
    """Return the wanted records of the batches. Without one, move the position behind the batches."""
    fetched = wanted_records(data, position.offset, position.end, aborted)
    if fetched.damage is not None and not fetched.records:  # print the records before the damage first
        raise Failed(f"{position.where}: {fetched.damage}")
    found = [(position, record, record.offset + 1) for record in fetched.records]
    if found:
        found[-1] = (*found[-1][:2], fetched.next_offset)
    else:
        position.offset = fetched.next_offset
    return found


def _show(arguments: Arguments, where: TopicPartition, record: Record) -> None:
    key, value = _text(record.key), _text(record.value)
    if arguments.json:
        shown = {
            "partition": where.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": key,
            "value": value,
            "headers": [[name, _text(content)] for name, content in record.headers],
        }
        line = json.dumps(shown, ensure_ascii=False)
    elif arguments.keys:
        line = f"{'' if key is None else key}\t{'' if value is None else value}"
    else:
        line = "" if value is None else value
    sys.stdout.write(f"{line}\n")


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode(errors="backslashreplace")
