"""`zab-broker produce`: write the lines of stdin to a topic."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Final

import click
import trio

from kraft_controller.core.names import TopicPartition
from replica.cli.bootstrap import verb_options, with_client
from replica.cli.topic import check_partitions, no_such_topic, raise_for_topic
from replica.core.errors import ErrorCode, KafkaError
from replica.runtime.network.broker_client import Client
from replica.runtime.network.broker_connection import raise_for
from replica.wire.compression import Codec
from replica.wire.records import Record, build
from replica.wire.schemas.cluster_schemas import METADATA, MetadataRequest, MetadataRequestTopic
from replica.wire.schemas.data_schemas import (
    INIT_PRODUCER_ID,
    PRODUCE,
    InitProducerIdRequest,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from zab.cli.kit.failures import DONE, Failed
from zab.cli.kit.output import progress, show_json
from zab.cli.kit.verb_group import Arguments, connected_command
from zab.host.clocks import wall_ms

RECORDS_MAX: Final = 2_000
BYTES_MAX: Final = 512 * 1024
"""The limit for the keys and values in one request, which a single larger record may exceed; also the limit of one read
from stdin."""
APPEARS_S: Final = 1.0
"""The time for which a topic may be reported as missing while brokers create it on demand."""

Pair = tuple[bytes | None, bytes]


@click.argument("topic")
@click.option("--partition", type=int, metavar="N", help="Write all records to this partition.")
@click.option("--key-separator", metavar="TEXT", help="The text between key and value; a line without it has no key.")
@click.option(
    "--acks",
    type=click.Choice(["1", "all"]),
    default="all",
    show_default=True,
    help="Wait for the leader only, or for all in-sync replicas.",
)
@click.option(
    "--codec",
    type=click.Choice([each.name.lower() for each in Codec]),
    default="none",
    show_default=True,
    help="The compression of the batches.",
)
async def _produce(client: Client, arguments: Arguments) -> int:
    producer = Producer(client, arguments.topic, arguments.acks, Codec[arguments.codec.upper()], arguments.partition)
    await producer.begin()
    separator = None if arguments.key_separator is None else arguments.key_separator.encode()
    chunks = _chunks(separator)
    try:
        while (chunk := await trio.to_thread.run_sync(next, chunks, None, abandon_on_cancel=True)) is not None:
            await producer.send(chunk)
    except BaseException:
        progress(producer.stopped())
        raise
    if arguments.json:
        show_json(
            {"topic": arguments.topic, "records": producer.sent, "partitions": dict(sorted(producer.ends.items()))}
        )
    progress(f"{_records(producer.sent)} written to {arguments.topic}")
    return DONE


_HELP: Final = """Write records to a topic: each line of stdin is a record.

\b
echo hello | zab-broker produce orders
zab-broker produce orders --key-separator : < keys-and-values.txt
seq 1000000 | zab-broker produce numbers --codec zstd --acks 1

Without --partition, records with the same key go to the same partition, which Kafka's Java client would choose, too.
The input is read in chunks of up to 2,000 lines. Without --partition, the records without a key in one chunk go to one
partition, and those in the next chunk to the next partition. With --acks all, each batch has a sequence number, so a
batch that is sent again after a lost reply is stored only once.

If the command fails, it prints how many records were acknowledged, and the number of the first input line without an
acknowledgement. The brokers may have stored this line and later ones.
"""
produce: Final = connected_command("produce", _HELP, _produce, with_client, verb_options())


def _records(count: int) -> str:
    return f"{count} record{'s' * (count != 1)}"


def _chunks(separator: bytes | None) -> Iterator[list[Pair]]:
    """Yield the lines of stdin in chunks of up to `RECORDS_MAX`. A read returns the input that is available at the
    moment; its complete lines are yielded before the next read."""
    rest = b""
    while data := os.read(sys.stdin.fileno(), BYTES_MAX):
        *lines, rest = (rest + data).split(b"\n")
        for first in range(0, len(lines), RECORDS_MAX):
            yield [_pair(line, separator) for line in lines[first : first + RECORDS_MAX]]
    if rest:
        yield [_pair(rest, separator)]


def _pair(line: bytes, separator: bytes | None) -> Pair:
    if separator is None:
        return None, line
    key, found, value = line.partition(separator)
    return (key, value) if found else (None, line)


class Producer:
    """Writes to one topic. It has at most one request in flight, so the records of a partition keep their order."""

    def __init__(self, client: Client, topic: str, acks: str, codec: Codec, partition: int | None = None) -> None:
        self.sent = 0
        self.ends: dict[int, int] = {}
        """The offset after the last acknowledged record, by partition."""
        self._client = client
        self._topic = topic
        self._acks = -1 if acks == "all" else int(acks)
        self._codec = codec
        self._partition = partition
        self._partitions: list[int] = []
        self._leaders: dict[TopicPartition, int] = {}
        self._turn = 0
        self._id = -1
        self._epoch = -1
        self._sequences: dict[int, int] = {}
        self._unacknowledged: dict[int, list[int]] = {}
        """The input line numbers of the unacknowledged records in the current chunk, by partition, in order."""

    async def begin(self) -> None:
        began = trio.current_time()

        async def look() -> list[int]:
            reply = await self._client.ask(
                METADATA,
                MetadataRequest(topics=[MetadataRequestTopic(name=self._topic)], allow_auto_topic_creation=True),
            )
            [topic] = reply.topics
            unknown = topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if unknown and trio.current_time() > began + APPEARS_S:
                why = "and none was created on demand (auto.create.topics.enable)"
                raise Failed(f"{await no_such_topic(self._client, self._topic)}, {why}")
            raise_for_topic(topic.error_code, self._topic)
            return sorted(each.partition_index for each in topic.partitions)

        async def identify() -> tuple[int, int]:
            reply = await self._client.ask(INIT_PRODUCER_ID, InitProducerIdRequest(transactional_id=None))
            raise_for(reply.error_code, "a producer id")
            return reply.producer_id, reply.producer_epoch

        self._partitions = await self._client.patiently(look)
        check_partitions(self._topic, self._partitions, () if self._partition is None else (self._partition,))
        if self._acks == -1:
            self._id, self._epoch = await self._client.patiently(identify)

    async def send(self, pairs: list[Pair]) -> None:
        batches: dict[int, list[Pair]] = {}
        lines: dict[int, list[int]] = {}
        for line, (key, value) in enumerate(pairs, self.sent + 1):
            partition = self._partition_of(key)
            batches.setdefault(partition, []).append((key, value))
            lines.setdefault(partition, []).append(line)
        self._unacknowledged = lines
        self._turn += 1
        for partition, batch in batches.items():
            for part in _parts(batch):
                await self._send(partition, part)
                del lines[partition][: len(part)]

    def stopped(self) -> str:
        """Describe a failed run: the number of acknowledged records, and the first line without an acknowledgement."""
        first = min((lines[0] for lines in self._unacknowledged.values() if lines), default=self.sent + 1)
        later = self.sent - (first - 1)
        text = f"{_records(self.sent)} written to {self._topic}; stopped at line {first} of the input"
        return f"{text}, with {later} of the later lines written" if later else text

    def _partition_of(self, key: bytes | None) -> int:
        if self._partition is not None:
            return self._partition
        if key is None:
            return self._partitions[self._turn % len(self._partitions)]
        return self._partitions[(murmur2(key) & 0x7FFF_FFFF) % len(self._partitions)]

    async def _send(self, partition: int, pairs: list[Pair]) -> None:
        now = wall_ms()
        sequence = self._sequences.get(partition, 0) if self._id >= 0 else -1
        data = build(
            [Record(place, now, key, value) for place, (key, value) in enumerate(pairs)],
            codec=self._codec,
            producer_id=self._id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
        )
        where = TopicPartition(self._topic, partition)
        part = PartitionProduceData(index=partition, records=data)
        body = ProduceRequest(
            acks=self._acks,
            timeout_ms=int(self._client.settings.request_s * 500),
            topic_data=[TopicProduceData(name=self._topic, partition_data=[part])],
        )

        async def once() -> None:
            leaders = self._leaders or await self._client.leaders([self._topic])
            self._leaders = {}  # they are looked up again if the request fails
            if where not in leaders:
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"no leader of {where}")
            reply = await self._client.ask_broker(leaders[where], PRODUCE, body)
            answer = reply.responses[0].partition_responses[0]
            raise_for(answer.error_code, str(where), answer.error_message)
            if answer.base_offset >= 0:
                self.ends[partition] = answer.base_offset + len(pairs)
            self._leaders = leaders

        await self._client.patiently(once)
        self._sequences[partition] = (sequence + len(pairs)) % (1 << 31)
        self.sent += len(pairs)


def _parts(pairs: list[Pair]) -> Iterator[list[Pair]]:
    part: list[Pair] = []
    size = 0
    for key, value in pairs:
        more = len(key or b"") + len(value)
        if part and size + more > BYTES_MAX:
            yield part
            part, size = [], 0
        part.append((key, value))
        size += more
    if part:
        yield part


def murmur2(data: bytes) -> int:
    """Return the murmur2 hash by which Kafka's Java client chooses the partition of a key, as an unsigned number."""
    mix, mask = 0x5BD1E995, 0xFFFF_FFFF
    value = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * mix & mask
        word = (word ^ word >> 24) * mix & mask
        value = value * mix & mask ^ word
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * mix & mask
    value = (value ^ value >> 13) * mix & mask
    return value ^ value >> 15
