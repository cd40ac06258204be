"""Who is in sync: by time, by conditional writes, and with every way in which a write's answer can go wrong."""

from __future__ import annotations

import pytest
from attrs import evolve

from kraft_controller.core.names import BrokerEpoch, BrokerId, Version
from replica.core.errors import ErrorCode
from replica.core.partitions.remote_replica import RemoteReplica
from replica.core.replica_settings import ReplicaSettings
from tests.unit.replica.world import T0, World

LAG = ReplicaSettings().lag_time_max_ms


def behind() -> World:
    """3 has stopped fetching, and something was written since."""
    world = World(3)
    world.create()
    world.produce(1, "a")
    world.pull(2, rounds=2)
    world.pass_time(LAG)
    world.pull(2)
    world.pass_time(LAG)
    return world


@pytest.mark.mechanism(3, 4, 5, 8, 9)
def test_silent_follower_leaves_the_isr_within_one_and_a_half_lag_times() -> None:
    world = World(3)
    world.create()
    world.produce(1, "a")
    left_after = None
    for step in range(0, 2 * LAG, 1_000):
        world.pull(2)
        world.write_isrs(1)
        if world.isr() == (1, 2):
            left_after = step
            break
        world.pass_time(1_000)
    assert left_after is not None
    assert LAG <= left_after <= LAG * 3 // 2 + 1_000


def test_caught_up_follower_stays_in_the_isr_while_silent() -> None:
    world = World(2)
    world.create(replicas=(1, 2))
    world.produce(1, "a")
    world.pull(2, rounds=2)
    world.pass_time(10 * LAG)
    world.write_isrs(1)
    assert world.isr() == (1, 2)
    assert world.servers[1].replicas.deadline is None  # and nobody looks any more


@pytest.mark.mechanism(3, 9)
def test_follower_slightly_behind_a_busy_leader_stays_in_the_isr() -> None:
    """KIP-16: it never has all that there is, but always what there was when it asked before."""
    world = World(2)
    world.create(replicas=(1, 2))
    for _ in range(100):
        world.produce(1, "x")
        request = world.ask(2)
        assert request is not None
        answers = world.serve(request)
        world.produce(1, "y")  # before it could ask again
        world.hear(2, request, answers)
        world.pass_time(1_000)
    world.write_isrs(1)
    assert world.isr() == (1, 2)


@pytest.mark.mechanism(9)
def test_steadily_lagging_follower_leaves_the_isr() -> None:
    settings = ReplicaSettings()
    slow = RemoteReplica(BrokerId(2), caught_up_ms=0)
    end = 1_000
    for now in range(0, LAG + 1_000, 1_000):
        slow.fetched(now // 1_000, 0, end, now)
        end += 1_000
    assert not slow.in_sync(end, LAG + 1_000, settings)


@pytest.mark.mechanism(7)
def test_the_old_rule_counted_messages_and_drops_a_healthy_one_in_a_burst() -> None:
    healthy = RemoteReplica(BrokerId(2), caught_up_ms=0)
    healthy.fetched(0, 0, 0, 0)
    assert healthy.in_sync(5_000, 1, ReplicaSettings())
    assert not healthy.in_sync(5_000, 1, ReplicaSettings(lag_messages_max=4_000))
    assert healthy.in_sync(4_000, 1, ReplicaSettings(lag_messages_max=4_000))


@pytest.mark.mechanism(16)
def test_shrunk_isr_advances_the_high_watermark_without_a_fetch() -> None:
    """KAFKA-13091: nothing else happens that would move the watermark."""
    world = World(2)
    world.create(replicas=(1, 2))
    token = world.produce(1, "a", acks=-1, timeout_ms=10 * LAG)
    world.pass_time(2 * LAG)
    assert world.error(token) is None  # it is asked for, and not yet so
    assert world.hw(1) == 0
    world.write_isrs(1)
    assert world.isr() == (1,)
    assert world.error(token) is ErrorCode.NONE


def test_the_leader_never_leaves() -> None:
    world = World(2)
    world.create(replicas=(1, 2))
    world.produce(1, "a")
    world.pass_time(2 * LAG)
    world.write_isrs(1)
    world.pass_time(10 * LAG)
    world.write_isrs(1)
    assert world.isr() == (1,)


@pytest.mark.mechanism(15, 6)
def test_while_one_is_about_to_come_in_he_has_to_have_everything_too() -> None:
    """The store may have let him in already. Then he may be elected, and has to have what is committed by then."""
    world = World(3)
    world.create()
    world.elect(1, [1, 2])
    world.pull(2, 3)
    assert [write.state.isr for write in world.servers[1].writes] == [(1, 2, 3)]
    world.produce(1, "a")
    world.pull(2, rounds=2)
    assert world.hw(1) == 0
    world.pull(3, rounds=2)
    assert world.hw(1) == 1


@pytest.mark.mechanism(81)
def test_while_one_is_about_to_leave_he_still_has_to_have_everything() -> None:
    world = behind()
    assert [write.state.isr for write in world.servers[1].writes] == [(1, 2)]
    assert world.hw(1) == 0
    world.write_isrs(1)
    assert world.hw(1) == 1


def test_one_change_at_a_time() -> None:
    world = behind()
    world.pass_time(10 * LAG)
    assert len(world.servers[1].writes) == 1


def test_a_lost_answer_to_a_write_that_stands_is_found_out() -> None:
    world = behind()
    server = world.servers[1]
    write = server.writes.pop()
    assert world.written(write) == 1
    server.replicas.alter_partition.lost(write)
    world.collect(server)  # reads
    assert world.leading(1).isr.members == (1, 2)
    assert world.hw(1) == 1
    assert server.writes == []


@pytest.mark.mechanism(84)
def test_a_lost_write_is_written_once_more_under_the_same_version() -> None:
    world = behind()
    server = world.servers[1]
    write = server.writes.pop()
    server.replicas.alter_partition.lost(write)
    world.collect(server)
    assert server.writes == [write]
    # The lost one comes after all, and before its copy: the copy is refused, and that is as good.
    assert world.written(write) == 1
    world.write_isrs(1)
    assert world.leading(1).isr.members == (1, 2)
    assert world.leading(1).isr.version == 1


@pytest.mark.mechanism(86)
def test_a_leader_that_was_replaced_does_not_overrule_the_controller() -> None:
    """It reads that another leads, and leaves the node alone, with whatever version it has read."""
    world = behind()
    server = world.servers[1]
    world.elect(2, [2, 3], tell=[2, 3])
    before = world.states[T0]
    world.write_isrs(1)
    world.pass_time(10 * LAG)
    world.write_isrs(1)
    assert world.states[T0] == before
    assert server.writes == []
    assert world.hw(1) == 0  # what 3 does not have is not committed: it may lead
    world.tell(to=[1])
    world.pull(1, rounds=2)
    assert world.log(1).written() == world.log(2).written()


def test_a_controller_that_read_our_own_change_only_confirms_it() -> None:
    """KAFKA-2729: the same leader epoch with a newer version is news, else every write after it would be refused."""
    world = behind()
    server = world.servers[1]
    write = server.writes.pop()
    world.written(write)
    world.tell(to=[1])
    assert world.leading(1).isr.members == (1, 2)
    server.replicas.alter_partition.written(write, Version(1), world.now)  # the answer comes late
    world.collect(server)
    assert world.leading(1).isr.members == (1, 2)
    world.pull(3, rounds=2)
    world.write_isrs(1)
    assert world.isr() == (1, 2, 3)


def test_an_answer_that_was_read_too_early_is_read_again() -> None:
    world = behind()
    server = world.servers[1]
    write = server.writes.pop()
    server.replicas.alter_partition.refused(write)
    [read] = server.replicas.ready().reads
    older = evolve(world.states[T0], version=Version(-1))
    server.replicas.alter_partition.read(read.where, read.epoch, older, world.now)
    assert server.replicas.ready().reads == ()
    world.written(write)
    world.pass_time(world.settings.isr_backoff_ms)
    assert world.leading(1).isr.members == (1, 2)


def test_a_partition_that_is_gone_is_not_written_about_any_more() -> None:
    world = behind()
    server = world.servers[1]
    write = server.writes.pop()
    server.replicas.alter_partition.refused(write)
    [read] = server.replicas.ready().reads
    server.replicas.alter_partition.read(read.where, read.epoch, None, world.now)
    world.pass_time(10 * LAG)
    assert server.writes == []


def test_the_dead_do_not_join() -> None:
    world = World(3)
    world.create()
    world.elect(1, [1, 2])
    request = world.ask(3)
    assert request is not None
    world.kill(3)
    world.tell_metadata()
    world.serve(request)
    assert world.servers[1].writes == []


def test_a_fetch_of_an_earlier_life_neither_joins_nor_counts() -> None:
    """KIP-903: it was sent before the broker died and lost its tail; the leader epoch is still the same."""
    world = World(2)
    world.create(replicas=(1, 2))
    world.elect(1, [1])
    world.produce(1, "a", "b")
    world.pull(2)
    late = world.ask(2)
    assert late is not None
    world.kill(2, keeps=0)
    world.start(2)
    world.tell_metadata()
    world.tell(to=[2])
    world.serve(late)
    assert world.servers[1].writes == []  # another life is registered than the one that asks
    world.pull(2)
    [refused] = world.serve(late)
    assert refused.error is ErrorCode.STALE_BROKER_EPOCH
    world.pull(2)
    assert [write.state.isr for write in world.servers[1].writes] == [(1, 2)]
    assert world.leading(1).followers[BrokerId(2)].broker_epoch == BrokerEpoch(world.servers[2].epoch)


@pytest.mark.mechanism(18)
def test_a_broker_that_holds_no_replica_is_not_counted() -> None:
    world = World(3)
    world.create(replicas=(1, 2))
    request = world.ask(2)
    assert request is not None
    assert request.fetch is not None
    stranger = evolve(request, fetch=evolve(request.fetch, replica=BrokerId(3)))
    [answer] = world.serve(stranger)
    assert answer.error is ErrorCode.UNKNOWN_LEADER_EPOCH
    silent = evolve(request, fetch=evolve(request.fetch, parts=(evolve(request.fetch.parts[0], leader_epoch=-1),)))
    [answer] = world.serve(silent)
    assert answer.error is ErrorCode.FENCED_LEADER_EPOCH
    assert BrokerId(3) not in world.leading(1).followers


def test_unregistered_follower_does_not_hold_the_high_watermark() -> None:
    world = World(2)
    world.create(replicas=(1, 2))
    world.elect(1, [1])
    world.pull(2)
    token = world.produce(1, "a", acks=-1)
    server = world.servers[1]
    [write] = server.writes
    assert write.joins == (2,)
    world.kill(2)
    world.tell_metadata()
    server.replicas.alter_partition.unwanted(write, world.now)
    world.collect(server)
    assert world.error(token) is ErrorCode.NONE


def test_uncertain_isr_write_is_ended_only_by_another_write() -> None:
    """The first answer was lost, and then 2 was gone. Were it only dropped, the first could still let 2 in, without
    what is committed by then."""
    world = World(2)
    world.create(replicas=(1, 2))
    world.elect(1, [1])
    world.pull(2)
    world.produce(1, "a")
    server = world.servers[1]
    lost = server.writes.pop()
    server.replicas.alter_partition.lost(lost)
    world.collect(server)
    again = server.writes.pop()
    world.kill(2)
    world.tell_metadata()
    server.replicas.alter_partition.unwanted(again, world.now)
    world.collect(server)
    assert world.hw(1) == 0
    world.write_isrs(1)
    assert world.hw(1) == 1
    assert world.written(lost) is None
    assert world.isr() == (1,)
