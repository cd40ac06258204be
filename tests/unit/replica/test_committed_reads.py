"""Transactions on replicas: who reads only what is committed sees all of one or nothing of it, whoever leads."""

from __future__ import annotations

import pytest

from kraft_controller.core.names import BrokerEpoch, BrokerId, TopicId, TopicPartition
from replica.core.errors import ErrorCode, KafkaError
from replica.core.partitions.log_config import LogConfig
from replica.core.partitions.offset_lookup import Lookup
from replica.core.partitions.partition_log import AppendOrigin, PartitionLog
from replica.core.replica_manager import ReplicaManager
from replica.core.replica_messages import Deleted, Fetch, Fetched, FetchPartition
from replica.core.replica_settings import ReplicaSettings
from replica.wire.batch import walk
from replica.wire.records import ControlType, control_batch, read_records
from tests.unit.replica.listlog import ListLogs
from tests.unit.replica.storage.logs import MemoryLog, batch
from tests.unit.replica.storage.transactional import ABORT, COMMIT, in_transaction
from tests.unit.replica.world import T0, Server, World

T1 = TopicPartition("t", 1)
BIG = 1 << 20
ANY_TIME = LogConfig.of({"message.timestamp.after.max.ms": str(1 << 62)})


class Logs:
    """Of one broker, of the kind that knows transactions. They outlive its process."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, MemoryLog] = {}

    def open(self, where: TopicPartition, topic_id: TopicId | None, *, begins: bool) -> PartitionLog:
        return self.logs.setdefault(where, MemoryLog(str(where), ANY_TIME))

    def high_watermark(self, where: TopicPartition) -> int:
        return 0

    def take_offline(self, where: TopicPartition, why: str) -> None:
        raise AssertionError

    def delete(self, where: TopicPartition) -> None:
        self.logs.pop(where, None)


class Room(World):
    def __init__(self, brokers: int = 2, settings: ReplicaSettings | None = None) -> None:
        self.disks = {number: Logs() for number in range(1, brokers + 1)}
        self.sequences: dict[tuple[TopicPartition, int], int] = {}
        super().__init__(brokers, settings=settings)
        for where in (T0, T1):
            self.create(where, replicas=range(1, brokers + 1))

    def _server(self, ident: BrokerId, disk: ListLogs) -> Server:
        self.zxid += 1
        return Server(ident, disk, ReplicaManager(ident, self.disks[ident], self.settings), BrokerEpoch(self.zxid))

    def append(self, broker: int, where: TopicPartition, data: bytes, *, acks: int = 1, origin: int = 0) -> int:
        token, server = self.token(), self.servers[broker]
        results = server.replicas.produce(token, acks, 30_000, [(where, data)], self.now, origin=origin)
        if results is not None:
            self.answers[token] = results
        self.collect(server)
        return token

    def write(self, broker: int, *values: bytes, where: TopicPartition = T0, producer: int = 7) -> None:
        place = where, producer
        sequence = self.sequences.get(place, 0)
        token = self.append(broker, where, in_transaction(producer, sequence, *values))
        assert self.error(token) is ErrorCode.NONE
        self.sequences[place] = sequence + len(values)

    def end(
        self, broker: int, kind: ControlType, *, where: TopicPartition = T0, producer: int = 7, coordinator: int = 0
    ) -> int:
        """The token of the answer, which comes when it is committed."""
        data = control_batch(kind, producer, 0, coordinator, self.now)
        return self.append(broker, where, data, acks=-1, origin=AppendOrigin.COORDINATOR)

    def fetched(self, broker: int, offset: int, where: TopicPartition = T0, **more: bool) -> Fetched:
        [result] = self.fetch_as_consumer(broker, offset, where=where, committed=True, **more)
        assert not result.error, result.error
        return result

    def shown(self, broker: int, where: TopicPartition = T0, **more: bool) -> list[bytes | None]:
        """Who aborted is passed over as a whole: nobody here begins another transaction after that."""
        result = self.fetched(broker, 0, where, **more)
        gone = {each.producer_id for each in result.aborted}
        return [
            record.value
            for at, header in walk(result.records)
            if not header.control and header.producer_id not in gone
            for record in read_records(result.records, at)
        ]


def test_a_transaction_over_two_partitions_is_shown_when_it_has_ended_in_each() -> None:
    room = Room()
    room.write(1, b"a", where=T0)
    room.write(1, b"b", where=T1)
    room.pull(2, rounds=2)
    assert [room.hw(1, where) for where in (T0, T1)] == [1, 1]
    assert room.shown(1, T0) == room.shown(1, T1) == []
    tokens = [room.end(1, COMMIT, where=where) for where in (T0, T1)]
    room.pull(2, rounds=2)
    assert [room.error(token) for token in tokens] == [ErrorCode.NONE] * 2
    assert (room.shown(1, T0), room.shown(1, T1)) == ([b"a"], [b"b"])


def test_aborted_transactions_are_listed_only_for_read_committed() -> None:
    room = Room()
    room.write(1, b"a")
    room.end(1, ABORT)
    room.write(1, b"kept", producer=8)
    room.end(1, COMMIT, producer=8)
    room.pull(2, rounds=2)
    result = room.fetched(1, 0)
    assert [(each.producer_id, each.first_offset) for each in result.aborted] == [(7, 0)]
    assert (result.stable_offset, result.high_watermark) == (4, 4)
    assert room.fetched(1, 2).aborted == ()
    assert room.fetched(1, 1).aborted != (), "its end is still to be read"
    assert room.fetched(1, 4).aborted == ()
    assert room.shown(1) == [b"kept"]
    [plain] = room.fetch_as_consumer(1, 0)
    assert (plain.aborted, plain.stable_offset) == ((), 4)
    assert len(list(walk(plain.records))) == 4


def test_every_fetch_response_has_the_last_stable_offset() -> None:
    room = Room()
    room.append(1, T0, batch(b"x"))
    room.write(1, b"a")
    room.pull(2, rounds=2)
    [plain] = room.fetch_as_consumer(1, 0)
    assert (plain.high_watermark, plain.stable_offset) == (2, 1)
    request = room.ask(2)
    assert request is not None
    answers = room.serve(request)
    told = [(each.high_watermark, each.stable_offset) for each in answers if isinstance(each, Fetched)]
    assert (2, 1) in told


def test_offset_lookups_are_bounded_by_the_last_stable_offset() -> None:
    room = Room()
    room.append(1, T0, batch(b"x", time=100))
    room.write(1, b"a")
    room.append(1, T0, batch(b"y", time=1 << 50))
    room.pull(2, rounds=2)
    replicas = room.servers[1].replicas
    assert [replicas.look_up(Lookup(T0, -1), committed=each).offset for each in (False, True)] == [3, 1]
    assert [replicas.look_up(Lookup(T0, 1 << 50), committed=each).offset for each in (False, True)] == [2, -1]
    assert replicas.look_up(Lookup(T0, 50), committed=True).offset == 0


def test_waiting_fetch_completes_when_the_marker_is_committed() -> None:
    room = Room()
    token, leader = room.token(), room.servers[1]
    asked = Fetch((FetchPartition(T0, 0, BIG),), wait_ms=60_000, committed=True)
    assert leader.replicas.fetch(token, asked, room.now) is None
    room.write(1, b"a")
    room.pull(2, rounds=2)
    assert token not in room.answers
    room.end(1, COMMIT)
    room.pull(2)
    assert token not in room.answers
    room.pull(2)
    [answer] = room.answers[token]
    assert isinstance(answer, Fetched)
    assert len(list(walk(answer.records))) == 2


def test_next_leader_without_the_marker_withholds_records_until_it_is_written_again() -> None:
    room = Room()
    room.write(1, b"a", b"b")
    room.pull(2, rounds=2)
    token = room.end(1, COMMIT)
    assert room.shown(1) == [], "if that were shown, the next leader would take it back"
    room.kill(1)
    room.elect(2, [2])
    assert room.error(token) is None
    assert room.shown(2) == []
    again = room.end(2, COMMIT, coordinator=1)
    assert room.error(again) is ErrorCode.NONE
    assert room.shown(2) == [b"a", b"b"]
    room.start(1)
    room.elect(2, [2])
    room.pull(1, rounds=3)
    assert room.disks[1].logs[T0].producers == room.disks[2].logs[T0].producers
    assert [len(disk.logs[T0].producers.unreplicated) for disk in room.disks.values()] == [0, 0], (
        "what is committed is settled"
    )


def test_an_end_is_refused_like_any_write_that_waits_for_all() -> None:
    room = Room(3, ReplicaSettings(min_insync=2))
    room.write(1, b"a")
    room.end(1, COMMIT, coordinator=3)
    assert room.error(room.end(1, ABORT, coordinator=2)) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert room.error(room.end(2, COMMIT)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert room.error(room.end(1, COMMIT, where=TopicPartition("u", 0))) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    room.elect(1, [1])
    assert room.error(room.end(1, COMMIT, coordinator=3)) is ErrorCode.NOT_ENOUGH_REPLICAS


def test_follower_serves_only_transactions_whose_commit_it_has_received() -> None:
    room = Room(settings=ReplicaSettings(follower_reads=True))
    room.write(1, b"a")
    room.end(1, ABORT)
    room.write(1, b"b", producer=8)
    room.pull(2, rounds=2)
    assert room.shown(2, any_replica=True) == []
    assert room.fetched(2, 0, any_replica=True).stable_offset == 2
    room.end(1, COMMIT, producer=8)
    room.pull(2)
    assert room.shown(2, any_replica=True) == []
    room.pull(2, rounds=2)
    assert room.shown(2, any_replica=True) == [b"b"]


def test_records_of_an_open_transaction_may_be_deleted() -> None:
    room = Room(1)
    room.write(1, b"a", b"b")
    token = room.token()
    results = room.servers[1].replicas.delete_records(token, 0, [(T0, -1)], room.now)
    assert results == [Deleted(T0, low_watermark=2)]
    result = room.fetched(1, 2)
    assert (result.records, result.stable_offset, result.start_offset) == (b"", 2, 2)
    assert room.error(room.end(1, ABORT)) is ErrorCode.NONE
    assert room.fetched(1, 2).stable_offset == 3


def test_producer_state_is_described_by_the_leader_alone() -> None:
    room = Room()
    room.write(1, b"a")
    room.pull(2)
    [producer] = room.servers[1].replicas.active_producers(T0)
    assert (producer.producer_id, producer.txn_start) == (7, 0)
    with pytest.raises(KafkaError) as caught:
        room.servers[2].replicas.active_producers(T0)
    assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
