"""What is committed, who may read it, and who has to have it first."""

from __future__ import annotations

import pytest

from kraft_controller.core.commands import LeaderAndIsr
from kraft_controller.core.names import BrokerId
from replica.core.errors import ErrorCode
from replica.core.replica_settings import ReplicaSettings
from tests.unit.replica.listlog import batch
from tests.unit.replica.world import CE, T0, World


def numbered(count: int, first: int = 0) -> list[str]:
    return [f"m{number}" for number in range(first, first + count)]


@pytest.mark.mechanism(11, 12, 13, 14, 20)
def test_of_nine_messages_six_are_committed_and_can_be_read() -> None:
    """LEO 9, high watermark 6: offsets 0 to 5 can be read, and the message at 6 cannot."""
    world = World()
    world.create()
    world.produce(1, *numbered(6))
    world.pull(2, 3, rounds=2)
    world.produce(1, *numbered(3, first=6))
    world.pull(2)  # has them, and asks for more next; 3 has not asked yet

    assert world.log(1).end_offset == 9
    assert world.hw(1) == 6
    assert world.consume(1, 0) == numbered(6)
    assert world.consume(1, 6) == []
    assert world.latest(1).offset == 6


@pytest.mark.mechanism(15, 13)
def test_the_watermark_is_the_smallest_end_among_those_in_sync() -> None:
    world = World()
    world.create()
    for record in numbered(9):
        world.produce(1, record)
    request = world.ask(2)
    assert request is not None
    world.hear(2, request, world.serve(request))
    world.pull(2)
    assert world.hw(1) == 0  # 3 has nothing, for all the leader knows
    world.pull(3)
    assert world.hw(1) == 0  # it was given all, and has not said that it has it
    world.pull(3)
    assert world.hw(1) == 9


@pytest.mark.mechanism(16, 22)
def test_next_fetch_of_a_follower_acknowledges() -> None:
    world = World(2)
    world.create(replicas=(1, 2))
    token = world.produce(1, "a", acks=-1)
    world.pull(2)
    assert world.log(2).end_offset == 1
    assert world.error(token) is None
    world.pull(2)
    assert world.error(token) is ErrorCode.NONE
    assert world.base_offset(token) == 0


@pytest.mark.mechanism(21, 23, 24)
def test_a_follower_learns_the_watermark_with_the_answer_and_so_lags_behind_it() -> None:
    world = World(2)
    world.create(replicas=(1, 2))
    world.produce(1, "a", "b")
    world.pull(2)
    assert (world.hw(1), world.hw(2)) == (0, 0)
    world.pull(2)
    assert (world.hw(1), world.hw(2)) == (2, 2)


@pytest.mark.mechanism(29, 30, 31)
def test_acks_of_none_of_one_and_of_all() -> None:
    world = World(2)
    world.create(replicas=(1, 2))
    none = world.produce(1, "a", acks=0)
    one = world.produce(1, "b", acks=1)
    both = world.produce(1, "c", acks=-1)
    assert world.error(none) is ErrorCode.NONE  # and nobody is told
    assert world.error(one) is ErrorCode.NONE
    assert world.error(both) is None
    world.pull(2, rounds=2)
    assert world.error(both) is ErrorCode.NONE
    assert world.error(world.produce(1, "d", acks=2)) is ErrorCode.INVALID_REQUIRED_ACKS


def test_a_partition_of_one_replica_commits_as_it_writes() -> None:
    world = World(1)
    world.create(replicas=(1,))
    token = world.produce(1, "a", "b", acks=-1)
    assert world.error(token) is ErrorCode.NONE
    assert world.consume(1, 0) == ["a", "b"]


def test_timed_out_produce_keeps_its_records() -> None:
    world = World(2)
    world.create(replicas=(1, 2))
    token = world.produce(1, "a", acks=-1, timeout_ms=1_000)
    world.pass_time(999)
    assert world.error(token) is None
    world.pass_time(1)
    assert world.error(token) is ErrorCode.REQUEST_TIMED_OUT
    world.pull(2, rounds=2)
    assert world.consume(1, 0) == ["a"]


@pytest.mark.mechanism(31)
def test_acks_all_writes_nothing_below_min_insync_replicas() -> None:
    world = World(3, settings=ReplicaSettings(min_insync=2))
    world.create()
    world.elect(1, [1])
    before = world.log(1).end_offset
    assert world.error(world.produce(1, "a", acks=-1)) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.log(1).end_offset == before


def test_acks_one_is_not_committed_below_min_insync_replicas() -> None:
    """Else it could be lost with the one who has it, after consumers have read it."""
    world = World(3, settings=ReplicaSettings(min_insync=2))
    world.create()
    world.elect(1, [1])
    assert world.error(world.produce(1, "a", acks=1)) is ErrorCode.NONE
    assert world.hw(1) == 0
    assert world.consume(1, 0) == []
    world.pull(2, rounds=2)
    world.write_isrs(1)
    assert world.isr() == (1, 2)
    assert world.consume(1, 0) == ["a"]


@pytest.mark.mechanism(31)
def test_isr_shrink_fails_waiting_produce_after_append() -> None:
    world = World(3, settings=ReplicaSettings(min_insync=2))
    world.create()
    token = world.produce(1, "a", acks=-1)
    world.elect(1, [1])
    assert world.error(token) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert world.log(1).records() == ["a"]


def test_more_than_there_are_replicas_need_not_be_in_sync() -> None:
    world = World(2, settings=ReplicaSettings(min_insync=3))
    world.create(replicas=(1, 2))
    token = world.produce(1, "a", acks=-1)
    world.pull(2, rounds=2)
    assert world.error(token) is ErrorCode.NONE


def test_a_topic_may_ask_for_more_in_sync_than_others() -> None:
    world = World(2)
    world.create(replicas=(1, 2))
    world.elect(1, [1])
    server = world.servers[1].replicas
    server.require_in_sync("t", 2, world.now)
    assert world.error(world.produce(1, "a", acks=-1)) is ErrorCode.NOT_ENOUGH_REPLICAS
    server.require_in_sync("t", None, world.now)
    assert world.error(world.produce(1, "a", acks=-1)) is ErrorCode.NONE


@pytest.mark.mechanism(15)
def test_high_watermark_waits_for_a_joining_replica() -> None:
    """Else a busy leader would always have committed something that he does not have yet."""
    world = World(2)
    world.create(replicas=(1, 2))
    world.elect(1, [1])
    world.pull(2)
    assert world.leading(1).followers[world.servers[2].id].end_offset == 0
    server = world.servers[1]
    assert server.writes  # 2 has all there is, and may come in
    world.produce(1, "a")
    assert world.hw(1) == 0  # were it not refused, 2 would be in sync now, without it
    world.pull(2, rounds=2)
    assert world.hw(1) == 1


@pytest.mark.mechanism(32)
def test_writes_that_must_be_on_the_disk_count_when_they_are() -> None:
    world = World(2, settings=ReplicaSettings(sync_writes=True))
    world.create(replicas=(1, 2))
    leader = world.servers[1].replicas
    token = world.token()
    assert leader.produce(token, 1, 1_000, [(T0, batch("a"))], world.now) is None
    assert leader.ready().flushes
    flush = leader.next_flush()
    assert flush is not None
    assert leader.next_flush() is None
    leader.flushed(T0, flush.cuts, flush.log.flush(), world.now)
    assert [reply.token for reply in leader.ready().replies] == [token]

    request = world.ask(2)
    assert request is not None
    follower = world.servers[2].replicas
    follower.fetchers.answered(request, world.serve(request), world.now)
    flush = follower.next_flush()
    assert flush is not None
    assert world.ask(2) is None  # the next would say that it has kept it
    follower.flushed(T0, flush.cuts, flush.log.flush(), world.now)
    world.pull(2)
    assert world.hw(1) == 1


def test_records_of_the_former_process_count_once_flushed() -> None:
    world = World(2, settings=ReplicaSettings(sync_writes=True))
    world.create(replicas=(1, 2))
    world.produce(1, "a")
    request = world.ask(2)
    assert request is not None
    world.servers[2].replicas.fetchers.answered(request, world.serve(request), world.now)
    world.kill(2)

    world.start(2)
    follower = world.servers[2]
    leaders = tuple(broker for broker in world.live() if broker.id == 1)
    command = LeaderAndIsr(BrokerId(9), CE, follower.epoch, False, (world.role(T0),), leaders)
    follower.replicas.apply(command, world.now)
    assert world.log(2).records() == ["a"]
    assert world.ask(2) is None  # it finds the record, and nobody has flushed it
    world.collect(follower)
    world.pull(2)
    assert world.hw(1) == 1
