"""Transactions of producers that we did not write: all of one is read, or nothing, whoever is stopped meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import aiokafka
import pytest
import trio
from attrs import define, field
from confluent_kafka import Consumer, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from kraft_controller.core.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from replica.core.groups.partitioning import partition_of
from replica.core.transactions.transaction_effects import Marker
from replica.core.transactions.transaction_settings import TransactionSettings
from replica.core.transactions.transaction_states import TxnState
from replica.runtime.broker import Broker
from tests.integration.brokers import Cluster, cluster, in_thread

pytestmark = pytest.mark.slow

ID = "payments"
GROUP = "g1"
PATIENCE_S = 240.0


def played(path: Path, brokers: int, story: Callable[[Cluster], None], **settings: Any) -> None:
    """With topics `t` and `out` of four partitions each; in a thread, as the clients are."""

    def prepared(running: Cluster) -> None:
        admin = KafkaAdminClient(bootstrap_servers=running.hosts)
        admin.create_topics([NewTopic(name, 4, min(brokers, 3)) for name in ("t", "out")])
        admin.close()
        story(running)

    async def main() -> None:
        async with cluster(path, brokers, session_timeout_ms=12_000, **settings) as running:
            await in_thread(prepared, running)

    trio.run(main)


def producer(running: Cluster, ident: str = ID, timeout_ms: int = 60_000) -> Producer:
    made = Producer(
        {
            "bootstrap.servers": running.hosts,
            "transactional.id": ident,
            "transaction.timeout.ms": timeout_ms,
            "log_level": 0,
        }
    )
    made.init_transactions(PATIENCE_S)
    return made


def write(to: Producer, values: Sequence[str], topic: str = "t") -> None:
    """One for each partition, in turn."""
    for number, value in enumerate(values):
        to.produce(topic, value, partition=number % 4)


def values(running: Cluster, topic: str, count: int, isolation: str = "read_committed") -> list[str]:
    """So many, by whoever reads all partitions from the beginning."""
    consumer = Consumer(
        {
            "bootstrap.servers": running.hosts,
            "group.id": f"whoever reads {isolation}",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.assign([ConfluentPartition(topic, number, 0) for number in range(4)])
    found: list[str] = []
    end = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < end:
        found += [text_of(each) for each in consumer.consume(100, 0.2) if each.error() is None]
    consumer.close()
    return found


def text_of(message: Message) -> str:
    return (message.value() or b"").decode()


def leads(running: Cluster, topic: str, number: int) -> int:
    def look() -> int | None:
        [broker, *_] = running.brokers.values()
        return broker.parts.metadata_cache.leader(TopicPartition(topic, number))

    found = until(lambda: trio.from_thread.run_sync(look))
    assert isinstance(found, int)
    return found


def coordinator(running: Cluster, ident: str = ID) -> int:
    return leads(running, TRANSACTIONS_TOPIC, partition_of(ident, running.base.transactions_topic.partitions))


def state(running: Cluster, ident: str = ID) -> TxnState | None:
    """As whoever coordinates it now has it."""

    def look() -> TxnState | None:
        found = [
            each.state
            for broker in running.brokers.values()
            for each in broker.parts.transaction_coordinator.coordinator.transactions
            if each.id == ident
        ]
        return found[0] if found else None

    return trio.from_thread.run_sync(look)


def until(true: Callable[[], object]) -> object:
    end = time.monotonic() + PATIENCE_S
    while not (found := true()):
        assert time.monotonic() < end, "it did not come to be"
        time.sleep(0.02)
    return found


# -- one producer ----------------------------------------------------------------------------------------------


def test_committed_records_are_read_and_aborted_ones_are_not(tmp_path: Path) -> None:
    def story(running: Cluster) -> None:
        mine = producer(running)
        mine.begin_transaction()
        write(mine, ["a1", "a2", "a3", "a4"])
        mine.commit_transaction(PATIENCE_S)
        mine.begin_transaction()
        write(mine, ["b1", "b2", "b3", "b4"])
        mine.flush(PATIENCE_S)
        mine.abort_transaction(PATIENCE_S)
        mine.begin_transaction()
        write(mine, ["c1", "c2", "c3", "c4"])
        mine.commit_transaction(PATIENCE_S)
        assert sorted(values(running, "t", 8)) == ["a1", "a2", "a3", "a4", "c1", "c2", "c3", "c4"]
        assert len(values(running, "t", 12, "read_uncommitted")) == 12

    played(tmp_path, 1, story)


def test_new_producer_of_an_id_fences_the_former_and_aborts_its_transaction(tmp_path: Path) -> None:
    def story(running: Cluster) -> None:
        zombie = producer(running)
        zombie.begin_transaction()
        write(zombie, ["z1", "z2"])
        zombie.flush(PATIENCE_S)
        mine = producer(running)
        mine.begin_transaction()
        write(mine, ["a1", "a2", "a3", "a4"])
        write(zombie, ["z3"])
        with pytest.raises(KafkaException) as error:
            zombie.commit_transaction(PATIENCE_S)
        assert error.value.args[0].fatal()
        mine.commit_transaction(PATIENCE_S)
        assert sorted(values(running, "t", 4)) == ["a1", "a2", "a3", "a4"]

    played(tmp_path, 1, story)


def test_abandoned_transaction_blocks_readers_no_longer_than_its_timeout(tmp_path: Path) -> None:
    def story(running: Cluster) -> None:
        gone = producer(running, "gone", timeout_ms=1_000)
        gone.begin_transaction()
        write(gone, ["z1", "z2", "z3", "z4"])
        gone.flush(PATIENCE_S)
        until(lambda: state(running, "gone") is TxnState.COMPLETE_ABORT)
        mine = producer(running)
        mine.begin_transaction()
        write(mine, ["a1", "a2", "a3", "a4"])
        mine.commit_transaction(PATIENCE_S)
        assert sorted(values(running, "t", 4)) == ["a1", "a2", "a3", "a4"]

    played(tmp_path, 1, story, transactions=TransactionSettings(abort_check_ms=100))


def test_aiokafka_commits_and_aborts_and_reads_committed_records(tmp_path: Path) -> None:
    async def work(hosts: str) -> list[bytes]:
        mine = aiokafka.AIOKafkaProducer(bootstrap_servers=hosts, transactional_id=ID)
        await mine.start()
        for word in (b"a", b"b", b"c"):
            await mine.begin_transaction()
            for number in range(4):
                await mine.send("t", word + b"%d" % number, partition=number)
            await mine.send_offsets_to_transaction({aiokafka.TopicPartition("t", 0): ord(word)}, GROUP)
            if word == b"b":
                await mine.abort_transaction()
            else:
                await mine.commit_transaction()
        await mine.stop()
        reader = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=hosts, isolation_level="read_committed", group_id=GROUP, enable_auto_commit=False
        )
        await reader.start()
        wheres = [aiokafka.TopicPartition("t", number) for number in range(4)]
        reader.assign(wheres)
        assert await reader.committed(wheres[0]) == ord("c")
        await reader.seek_to_beginning(*wheres)
        found: list[bytes] = []
        while len(found) < 8:
            found += [each.value for batch in (await reader.getmany(timeout_ms=200)).values() for each in batch]
        await reader.stop()
        return found

    def story(running: Cluster) -> None:
        found = asyncio.run(asyncio.wait_for(work(running.hosts), PATIENCE_S))
        assert sorted(found) == [b"a0", b"a1", b"a2", b"a3", b"c0", b"c1", b"c2", b"c3"]

    played(tmp_path, 1, story)


# -- brokers are stopped ---------------------------------------------------------------------------------------


@define(eq=False)
class Deaf:
    """A broker whose partitions hear of no end: what is decided there stays undone."""

    sent: list[Marker] = field(factory=list)

    def put_before(self, broker: Broker) -> None:
        broker.parts.transaction_coordinator._markers.send = self.sent.append  # type: ignore[assignment,method-assign]


def test_next_coordinator_completes_decided_transactions(tmp_path: Path) -> None:
    def story(running: Cluster) -> None:
        mine = producer(running)
        for word, commits in (("a", True), ("b", False)):
            first = coordinator(running)
            deaf = Deaf()
            trio.from_thread.run_sync(deaf.put_before, running.brokers[first])
            mine.begin_transaction()
            write(mine, [f"{word}{number}" for number in range(4)])
            mine.flush(PATIENCE_S)
            if commits:
                mine.commit_transaction(PATIENCE_S)  # it is told as soon as it is decided
            else:
                mine.abort_transaction(PATIENCE_S)
            until(lambda: deaf.sent)  # noqa: B023  # it is called here
            trio.from_thread.run(running.stop, first)
            until(lambda: coordinator(running) != first)  # noqa: B023
            wanted = TxnState.COMPLETE_COMMIT if commits else TxnState.COMPLETE_ABORT
            until(lambda: state(running) is wanted)  # noqa: B023
            trio.from_thread.run(running.start, first)
            trio.from_thread.run(running.all_know_all)
            trio.from_thread.run(running.all_in_sync)
        mine.begin_transaction()
        write(mine, ["c0", "c1", "c2", "c3"])
        mine.commit_transaction(PATIENCE_S)
        assert sorted(values(running, "t", 8)) == ["a0", "a1", "a2", "a3", "c0", "c1", "c2", "c3"]

    played(tmp_path, 3, story)


def test_from_topic_to_topic_exactly_once_while_every_broker_is_restarted(tmp_path: Path) -> None:
    """Read, written and committed in one; coordinators of both kinds and leaders of partitions go meanwhile.

    A producer that knows a broker as the group's coordinator waits for that one in `send_offsets_to_transaction`,
    without end once it has left the cluster: librdkafka (its issues 5511 and 5456) and kafka-python 3.0 alike. Then
    another producer takes the name over, as a program does that is started again.
    """
    many = 400

    def story(running: Cluster) -> None:
        plain = Producer({"bootstrap.servers": running.hosts, "enable.idempotence": True, "log_level": 0})
        write(plain, [str(number) for number in range(many)])
        assert plain.flush(PATIENCE_S) == 0
        consumer = Consumer(
            {
                "bootstrap.servers": running.hosts,
                "group.id": GROUP,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 30_000,
                "log_level": 0,
            }
        )
        consumer.subscribe(["t"])
        mine = producer(running)
        turn = 0
        done = 0
        stops = [many // 5, 2 * many // 5, 3 * many // 5]
        stopped: int | None = None
        coordinated: set[int] = set()
        end = time.monotonic() + PATIENCE_S
        while done < many:
            assert time.monotonic() < end, f"{done} of {many}"
            taken = [each for each in consumer.consume(20, 0.2) if each.error() is None]
            if not taken:
                continue
            turn += 1
            mine.begin_transaction()
            for each in taken:
                mine.produce("out", each.value(), partition=(each.partition() or 0))
            coordinated.add(leads(running, OFFSETS_TOPIC, partition_of(GROUP, running.base.offsets.partitions)))
            if stops and done >= stops[0]:
                stops.pop(0)
                if stopped is not None:
                    trio.from_thread.run(running.start, stopped)
                    trio.from_thread.run(running.all_know_all)
                    trio.from_thread.run(running.all_in_sync)  # else the last in-sync replica may be stopped next
                offsets = leads(running, OFFSETS_TOPIC, partition_of(GROUP, running.base.offsets.partitions))
                stopped = [coordinator(running), offsets, leads(running, "out", 0)][len(stops)]
                trio.from_thread.run(running.stop, stopped)
                if stopped in coordinated:
                    coordinated.clear()
                    mine = producer(running)
                    rewind(consumer)
                    continue
            positions = consumer.position(consumer.assignment())
            try:
                mine.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), PATIENCE_S)
                if turn % 5 == 4:
                    mine.abort_transaction(PATIENCE_S)
                    rewind(consumer)
                    continue
                mine.commit_transaction(PATIENCE_S)
                done += len(taken)
            except KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    raise
                mine.abort_transaction(PATIENCE_S)
                rewind(consumer)
        consumer.close()
        if stopped is not None:
            trio.from_thread.run(running.start, stopped)
        found = values(running, "out", many)
        assert sorted(found, key=int) == [str(number) for number in range(many)]

    played(tmp_path, 3, story)


def rewind(consumer: Consumer) -> None:
    """To where the group is: what was aborted is read again. That is asked again while nobody coordinates the group."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            known = consumer.committed(consumer.assignment(), PATIENCE_S)
        except KafkaException:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
        else:
            break
    for each in known:
        consumer.seek(ConfluentPartition(each.topic, each.partition, max(each.offset, 0)))
