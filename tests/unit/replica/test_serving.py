"""Fetches that wait, fetches of many partitions, followers that serve, and where offsets are."""

from __future__ import annotations

import pytest

from kraft_controller.core.names import BrokerId, TopicPartition
from replica.core.errors import ErrorCode
from replica.core.partitions.offset_lookup import Lookup
from replica.core.partitions.remote_replica import STUCK_REPEATS
from replica.core.replica_messages import Deleted, Fetch, Fetched, FetchPartition
from replica.core.replica_settings import ReplicaSettings
from tests.unit.replica.listlog import batch, decode
from tests.unit.replica.world import T0, World

T1 = TopicPartition("t", 1)
BIG = 1 << 20


def alone(**settings: int) -> World:
    world = World(1, settings=ReplicaSettings(**settings))  # type: ignore[arg-type]
    for where in (T0, T1):
        world.create(where, replicas=(1,))
    return world


def fetched(world: World, token: int) -> list[Fetched]:
    results = world.answers[token]
    assert all(isinstance(each, Fetched) for each in results)
    return [each for each in results if isinstance(each, Fetched)]


def sizes(results: list[Fetched]) -> list[int]:
    return [len(decode(each.records)) for each in results]


def wait(world: World, broker: int, *parts: FetchPartition, ms: int = 5_000, least: int = 1) -> int:
    token = world.token()
    server = world.servers[broker]
    assert server.replicas.fetch(token, Fetch(parts, wait_ms=ms, bytes_min=least), world.now) is None
    return token


def test_waiting_consumer_gets_records_when_committed() -> None:
    world = World(2)
    world.create(replicas=(1, 2))
    token = wait(world, 1, FetchPartition(T0, 0, BIG))
    world.produce(1, "a")
    world.pull(2)
    assert token not in world.answers  # written, and not committed
    world.pull(2)
    [answer] = fetched(world, token)
    assert [each.records for each in decode(answer.records)] == [(b"a",)]
    assert answer.high_watermark == 1


def test_waiting_follower_gets_records_when_appended() -> None:
    world = World(2)
    world.create(replicas=(1, 2))
    request = world.ask(2)
    assert request is not None
    assert request.fetch is not None
    token = world.token()
    assert world.servers[1].replicas.fetch(token, request.fetch, world.now) is None
    world.produce(1, "a")
    world.hear(2, request, fetched(world, token))
    assert world.log(2).records() == ["a"]


def test_fetch_without_records_times_out_empty() -> None:
    world = alone()
    token = wait(world, 1, FetchPartition(T0, 0, BIG), FetchPartition(T1, 0, BIG), ms=500)
    world.pass_time(499)
    assert token not in world.answers
    world.pass_time(1)
    assert sizes(fetched(world, token)) == [0, 0]
    assert len(world.servers[1].replicas.purgatory) == 0


def test_min_bytes_counts_all_partitions_together() -> None:
    world = alone()
    one = len(batch("aaaa"))
    token = wait(world, 1, FetchPartition(T0, 0, BIG), FetchPartition(T1, 0, BIG), least=2 * one)
    world.produce(1, "aaaa", where=T0)
    assert token not in world.answers
    world.produce(1, "bbbb", where=T1)
    assert sizes(fetched(world, token)) == [1, 1]


def test_an_error_or_enough_bytes_are_answered_without_waiting() -> None:
    world = alone()
    server = world.servers[1].replicas
    results = server.fetch(
        world.token(), Fetch((FetchPartition(T0, 7, BIG), FetchPartition(T1, 0, BIG)), wait_ms=5_000), world.now
    )
    assert results is not None
    assert [each.error for each in results] == [ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.NONE]
    assert (results[0].high_watermark, results[0].start_offset) == (-1, -1)


def test_first_batch_is_whole_and_the_rest_fits_the_limit() -> None:
    world = alone()
    for where in (T0, T1):
        world.produce(1, "x" * 1_000, where=where)
        world.produce(1, "y" * 1_000, where=where)
    server = world.servers[1].replicas
    small = (FetchPartition(T0, 0, 10), FetchPartition(T1, 0, 10))
    results = server.fetch(world.token(), Fetch(small), world.now)
    assert results is not None
    assert sizes(results) == [1, 0]
    wide = (FetchPartition(T0, 0, BIG), FetchPartition(T1, 0, BIG))
    results = server.fetch(world.token(), Fetch(wide, bytes_max=3_100), world.now)
    assert results is not None
    assert sizes(results) == [2, 1]


def test_only_so_many_may_wait() -> None:
    world = alone(parked_max=1)
    wait(world, 1, FetchPartition(T0, 0, BIG))
    server = world.servers[1].replicas
    assert server.fetch(world.token(), Fetch((FetchPartition(T0, 0, BIG),), wait_ms=5_000), world.now) is not None
    assert world.error(world.produce(1, "a", acks=1)) is ErrorCode.REQUEST_TIMED_OUT
    assert world.log(1).records() == []
    assert server.delete_records(world.token(), 0, [(T0, 0)], world.now) == [Deleted(T0, ErrorCode.REQUEST_TIMED_OUT)]


def test_disconnected_fetch_is_forgotten() -> None:
    world = alone()
    token = wait(world, 1, FetchPartition(T0, 0, BIG))
    server = world.servers[1].replicas
    server.purgatory.cancel(token)
    world.produce(1, "a")
    world.pass_time(10_000)
    assert token not in world.answers
    assert len(server.purgatory) == 0


def test_deadlines_of_answered_requests_are_dropped() -> None:
    world = World(2)
    world.create(replicas=(1, 2))
    for _ in range(500):
        world.produce(1, "a", acks=-1, timeout_ms=1_000_000)
        world.pull(2, rounds=2)
    assert len(world.servers[1].replicas.purgatory) == 0
    assert world.servers[1].replicas.purgatory.timers < 100


@pytest.mark.mechanism(17)
def test_consumer_is_sent_to_its_rack_and_reads_up_to_that_high_watermark() -> None:
    world = World(2, racks=("east", "west"), settings=ReplicaSettings(follower_reads=True))
    world.create(replicas=(1, 2))
    world.produce(1, "a")
    world.pull(2, rounds=2)
    [answer] = world.fetch_as_consumer(1, 0, rack="west", any_replica=True)
    assert answer.preferred == 2
    assert answer.records == b""
    assert world.consume(2, 0, any_replica=True) == ["a"]
    assert world.consume(1, 0, rack="east", any_replica=True) == ["a"]
    assert world.consume(1, 0, rack="north", any_replica=True) == ["a"]
    [old] = world.fetch_as_consumer(2, 0)
    assert old.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_follower_distinguishes_offset_not_available_from_out_of_range() -> None:
    world = World(2, settings=ReplicaSettings(follower_reads=True))
    world.create(replicas=(1, 2))
    world.produce(1, "a")
    world.pull(2)
    [answer] = world.fetch_as_consumer(2, 1, any_replica=True)
    assert answer.error is ErrorCode.OFFSET_NOT_AVAILABLE
    [answer] = world.fetch_as_consumer(2, 5, any_replica=True)
    assert answer.error is ErrorCode.OFFSET_OUT_OF_RANGE


def test_fetch_at_a_follower_completes_when_its_high_watermark_advances() -> None:
    world = World(2, settings=ReplicaSettings(follower_reads=True))
    world.create(replicas=(1, 2))
    token = world.token()
    follower = world.servers[2].replicas
    assert (
        follower.fetch(token, Fetch((FetchPartition(T0, 0, BIG),), wait_ms=5_000, any_replica=True), world.now) is None
    )
    world.produce(1, "a")
    world.pull(2, rounds=2)
    assert sizes(fetched(world, token)) == [1]


def test_offsets_are_found_by_timestamp_and_at_both_log_ends() -> None:
    world = World(2)
    world.create(replicas=(1, 2))
    leader = world.servers[1].replicas
    for timestamp in (100, 300, 200):
        leader.produce(world.token(), 1, 0, [(T0, batch("x", timestamp=timestamp))], world.now)
    world.pull(2)

    def at(timestamp: int, replica: int = -1) -> tuple[int, int]:
        answer = leader.look_up(Lookup(T0, timestamp), replica=BrokerId(replica))
        assert not answer.error
        return answer.offset, answer.timestamp

    assert (at(-1), at(-2)) == ((0, -1), (0, -1))
    assert at(-1, replica=2) == (3, -1)
    assert at(150) == (-1, -1)  # it is there, and not committed
    world.pull(2)
    assert at(-1) == (3, -1)
    assert at(150) == (1, 300)
    assert at(301) == (-1, -1)
    assert at(-3) == (1, 300)


def test_delete_records_completes_when_live_replicas_advance() -> None:
    world = World(3)
    world.create()
    world.produce(1, "a", "b", "c")
    world.pull(2, 3, rounds=2)
    leader = world.servers[1].replicas
    token = world.token()
    assert leader.delete_records(token, 10_000, [(T0, -1)], world.now) is None
    assert world.log(1).start_offset == 3
    world.pull(2, rounds=2)
    world.pull(3)
    assert token not in world.answers
    world.pull(3)
    assert world.answers[token] == [Deleted(T0, low_watermark=3)]
    assert (world.log(2).start_offset, world.log(3).start_offset) == (3, 3)


def test_delete_records_does_not_wait_for_failed_replicas() -> None:
    world = World(2)
    world.create(replicas=(1, 2))
    world.produce(1, "a")
    world.pull(2, rounds=2)
    token = world.token()
    leader = world.servers[1].replicas
    assert leader.delete_records(token, 10_000, [(T0, 1)], world.now) is None
    world.kill(2)
    world.tell_metadata()
    assert world.answers[token] == [Deleted(T0, low_watermark=1)]


def test_uncommitted_records_cannot_be_deleted() -> None:
    world = World(2)
    world.create(replicas=(1, 2))
    world.produce(1, "a")
    leader = world.servers[1].replicas
    assert leader.delete_records(world.token(), 0, [(T0, 1)], world.now) == [Deleted(T0, ErrorCode.OFFSET_OUT_OF_RANGE)]


def test_replicas_on_the_move_fetch_no_more_than_they_may() -> None:
    world = World(3)
    world.create()
    world.elect(1, [1, 2])
    for broker in (2, 3):
        world.servers[broker].replicas.fetchers.throttle([T0], 1_000)
    world.produce(1, "x" * 2_000)
    world.pull(2, 3)
    world.produce(1, "y" * 2_000)
    assert world.ask(2) is not None  # who is in sync has to keep up
    assert world.ask(3) is None
    follower = world.servers[3].replicas
    resume = follower.fetchers.resume_at(BrokerId(1), world.now)
    assert resume is not None
    assert resume > world.now + 1_900
    world.now = resume
    world.pull(3)
    assert world.log(3).end_offset == 2


def test_a_leader_sends_those_that_are_to_come_no_more_than_it_may() -> None:
    world = World(3)
    world.create()
    world.elect(1, [1, 2])
    leader = world.servers[1].replicas
    leader.fetches.quota.configure([T0], 1_000)
    world.produce(1, "x" * 2_000)
    world.pull(2, 3)
    assert world.log(3).end_offset == 1  # a batch is not taken apart: it is made up for afterwards
    world.produce(1, "y" * 2_000)
    world.pull(2, 3)
    assert world.log(2).end_offset == 2  # who is in sync has to keep up
    assert world.log(3).end_offset == 1
    token = world.token()
    follower = Fetch((FetchPartition(T0, 1, BIG, leader_epoch=1, last_epoch=1),), BrokerId(3), wait_ms=500)
    assert leader.fetch(token, follower, world.now) is None
    world.pass_time(500)
    assert [each.records for each in fetched(world, token)] == [b""]
    consumer = leader.fetch(world.token(), Fetch((FetchPartition(T0, 0, BIG),)), world.now)
    assert consumer is not None
    assert sizes(consumer) == [1]  # consumers have rates of their own
    world.pass_time(2_500)
    world.pull(3)
    assert world.log(3).end_offset == 2


def test_a_rate_of_nothing_lets_nothing_through_until_it_is_another() -> None:
    world = World(3)
    world.create()
    world.elect(1, [1, 2])
    world.produce(1, "x")
    follower = world.servers[3].replicas
    follower.fetchers.throttle([T0], 0)
    world.collect(world.servers[3])
    world.pass_time(10_000)
    assert world.ask(3) is None
    follower.fetchers.throttle([], None)
    assert follower.ready().leaders == (1,)  # who sleeps until the rate allows more is woken
    world.pull(3)
    assert world.log(3).end_offset == 1


@pytest.mark.mechanism(28)
def test_follower_fetches_all_partitions_and_names_those_with_records_last_next_time() -> None:
    world = World(2)
    for where in (T0, T1):
        world.create(where, replicas=(1, 2))
    request = world.ask(2)
    assert request is not None
    assert request.fetch is not None
    assert [part.where for part in request.fetch.parts] == [T0, T1]
    world.produce(1, "a")
    world.hear(2, request, world.serve(request))
    request = world.ask(2)
    assert request is not None
    assert request.fetch is not None
    assert [part.where for part in request.fetch.parts] == [T1, T0]


# -- what nobody takes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("another", [True, False])
def test_leader_with_a_damaged_batch_leaves_leadership_to_an_intact_replica(another: bool) -> None:
    """A replica that is made anew asks for the batch again and again, and does not take it. Without another one in sync
    what can still be read of it is served on, and the leader says what is wrong."""
    world = World(3)
    world.create()
    world.elect(1, [1, 3] if another else [1])
    world.produce(1, "a")
    world.pull(3, rounds=2)
    request = world.ask(2)
    assert request is not None
    world.serve(request)
    for _ in range(STUCK_REPEATS + 1):  # lost on the way, perhaps: there is nothing wrong with it
        [answer] = world.serve(request)
        assert (answer.error, "log_rotten" in world.events(1)) == (ErrorCode.NONE, False)
    world.log(1).rotten.add(0)
    errors = {answer.error for _ in range(STUCK_REPEATS) for answer in world.serve(request)}
    if another:
        assert errors == {ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR}
        assert T0 not in world.servers[1].replicas.partitions
        world.elect(3, [3])
        world.pull(2)
        assert world.log(2).records() == ["a"]
    else:
        assert errors == {ErrorCode.NONE}
        assert "log_rotten" in world.events(1)
