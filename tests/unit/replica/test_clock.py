"""The time of day is what records are held against. It may be set; what a broker waits for goes by another clock."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import trio

from kraft_controller.core.commands import LeaderAndIsr, Role
from kraft_controller.core.names import BrokerEpoch, BrokerId, ControllerEpoch, TopicId, TopicPartition
from kraft_controller.core.state import Assignment, Broker, PartitionState
from replica.core.errors import ErrorCode
from replica.core.partitions.log_config import LogConfig
from replica.runtime.logs import Log
from replica.runtime.replication.replica_manager_runtime import ReplicaManagerRuntime
from replica.wire.batch import parse_header
from replica.wire.records import batch_of
from tests.unit.replica.storage.logs import MemoryLog
from zab.host import clocks

T0 = TopicPartition("t", 0)
ME = BrokerId(1)
NOON = 1_700_000_000_000
HOUR = 3_600_000


class OneLog:
    def __init__(self, **settings: str) -> None:
        config = LogConfig.of({key.replace("_", "."): value for key, value in settings.items()})
        self.log = MemoryLog("t-0", config)

    def open(self, where: TopicPartition, topic_id: TopicId | None, *, begins: bool) -> MemoryLog:
        return self.log

    def high_watermark(self, where: TopicPartition) -> int:
        return 0

    def take_offline(self, where: TopicPartition, why: str) -> None:
        """Nothing opens it again."""

    def delete(self, where: TopicPartition) -> None:
        raise AssertionError

    def keep_high_watermarks(self, watermarks: Mapping[TopicPartition, int]) -> None:
        raise AssertionError


class Clock:
    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def time(self) -> float:
        return self.now_ms / 1000

    def time_ns(self) -> int:
        return self.now_ms * 1_000_000


def leader_of(logs: OneLog) -> ReplicaManagerRuntime:
    made = ReplicaManagerRuntime(ME, logs, Log(ME), lambda: BrokerEpoch(1), lambda: None, lambda broker: None)
    role = Role(T0, TopicId("t" * 22), PartitionState(ME, (ME,)), Assignment((ME,)))
    broker = Broker(ME, BrokerEpoch(1), ())
    assert not made.apply(LeaderAndIsr(ME, ControllerEpoch(1), BrokerEpoch(1), False, (role,), (broker,)))
    return made


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock(NOON - 2 * HOUR)
    monkeypatch.setattr(clocks, "time", made)
    return made


def test_a_clock_that_was_wrong_at_the_start_and_is_set_right_refuses_no_record(clock: Clock) -> None:
    async def main() -> None:
        leader = leader_of(OneLog())

        async def produced(stamp: int) -> ErrorCode:
            [answer] = await leader.produce(1, 1_000, [(T0, batch_of([(None, b"v")], stamp))])
            return answer.error

        assert await produced(NOON) is ErrorCode.INVALID_TIMESTAMP
        began = leader.now()
        clock.now_ms = NOON
        assert await produced(NOON) is ErrorCode.NONE
        assert await produced(NOON + 2 * HOUR) is ErrorCode.INVALID_TIMESTAMP
        assert leader.now() - began < HOUR, "nobody has waited for two hours"

    trio.run(main)


def test_stamps_of_a_log_are_of_the_time_that_the_clock_shows_then(clock: Clock) -> None:
    async def main() -> None:
        logs = OneLog(message_timestamp_type="LogAppendTime")
        leader = leader_of(logs)
        for now_ms in (NOON - 2 * HOUR, NOON, NOON - HOUR):
            clock.now_ms = now_ms
            [answer] = await leader.produce(1, 1_000, [(T0, batch_of([(None, b"v")], 5))])
            assert answer.append_time == now_ms
            data = logs.log.read(answer.base_offset, 1, 1 << 30).records
            assert parse_header(data, 0).max_timestamp == now_ms

    trio.run(main)
