"""What the controller says, and what becomes of those who wait when a broker becomes something else."""

from __future__ import annotations

import pytest
from attrs import evolve

from kraft_controller.core.commands import LeaderAndIsr, in_pieces
from kraft_controller.core.names import BrokerId, LeaderEpoch, TopicId, TopicPartition
from replica.core.errors import ErrorCode
from replica.core.partitions.offset_lookup import Lookup
from replica.core.replica_messages import Fetch, FetchPartition
from tests.unit.replica.listlog import batch
from tests.unit.replica.world import CE, T0, World

T1 = TopicPartition("t", 1)


def apply(world: World, broker: int, *wheres: TopicPartition, full: bool = False) -> dict[TopicPartition, int]:
    server = world.servers[broker]
    roles = tuple(world.role(where) for where in wheres)
    errors = server.replicas.apply(LeaderAndIsr(BrokerId(9), CE, server.epoch, full, roles, ()), world.now)
    world.collect(server)
    return errors


@pytest.mark.mechanism(83)
def test_an_older_leader_epoch_is_refused_and_the_same_one_does_no_harm() -> None:
    world = World(2)
    world.create(replicas=(1, 2))
    before = world.role(T0)
    world.elect(2, [1, 2])
    assert apply(world, 1, T0) == {}
    server = world.servers[1]
    errors = server.replicas.apply(LeaderAndIsr(BrokerId(9), CE, server.epoch, False, (before,), ()), world.now)
    assert errors == {T0: ErrorCode.STALE_CONTROLLER_EPOCH}
    assert server.replicas.partitions[T0].leader == 2


def test_repeated_command_keeps_the_follower_position() -> None:
    world = World(2)
    world.create(replicas=(1, 2))
    world.produce(1, "a")
    request = world.ask(2)
    assert request is not None
    world.tell()
    world.hear(2, request, world.serve(request))
    assert world.log(2).records() == ["a"]


def test_a_topic_that_was_made_anew_is_not_the_one_that_is_held() -> None:
    world = World(1)
    world.create(replicas=(1,))
    server = world.servers[1]
    role = evolve(world.role(T0), topic_id=TopicId("another".ljust(22, "x")))
    role = evolve(role, state=evolve(role.state, leader_epoch=LeaderEpoch(5)))
    errors = server.replicas.apply(LeaderAndIsr(BrokerId(9), CE, server.epoch, False, (role,), ()), world.now)
    assert errors == {T0: ErrorCode.INCONSISTENT_TOPIC_ID}


def test_leftover_log_of_a_deleted_topic_is_not_reused() -> None:
    world = World(1)
    world.create(replicas=(1,))
    world.produce(1, "old")
    server = world.servers[1]
    old = world.role(T0)
    server.replicas.apply(LeaderAndIsr(BrokerId(9), CE, server.epoch, True, (), ()), world.now)  # it is none of ours
    role = evolve(old, topic_id=TopicId("another".ljust(22, "x")), state=evolve(old.state, leader_epoch=LeaderEpoch(0)))
    role = evolve(role, is_new=True)
    assert server.replicas.apply(LeaderAndIsr(BrokerId(9), CE, server.epoch, False, (role,), ()), world.now) == {}
    assert world.log(1).records() == []
    assert server.replicas.partitions[T0].high_watermark == 0


def test_isr_member_does_not_lead_with_an_empty_log() -> None:
    """The file that says whose the log is has rotted, or folders were moved: nobody may cut what is committed."""
    world = World(2)
    world.create(replicas=(1, 2))
    world.produce(1, "committed", acks=1)
    world.kill(1)
    world.servers[1].disk.topic_ids[T0] = TopicId("another".ljust(22, "x"))
    world.start(1)
    world.elect(1, [1, 2])
    assert world.tell(to=[1]) == {1: {T0: ErrorCode.INCONSISTENT_TOPIC_ID}}
    assert T0 not in world.servers[1].replicas.partitions
    assert world.log(1).records() == ["committed"]
    world.elect(2, [2])
    assert world.tell(to=[1]) == {1: {}}  # now it begins: whatever it follows with, it has to catch up first
    assert world.log(1).records() == []


def test_unassigned_broker_creates_no_replica() -> None:
    world = World(2)
    world.create(replicas=(1,))
    assert apply(world, 2, T0) == {T0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert world.servers[2].disk.logs == {}


def test_waiting_requests_fail_when_leadership_ends() -> None:
    world = World(2)
    world.create(replicas=(1, 2))
    written = world.produce(1, "a", acks=-1)
    server = world.servers[1].replicas
    consumer = world.token()
    assert server.fetch(consumer, Fetch((FetchPartition(T0, 0, 1 << 20),), wait_ms=10_000), world.now) is None
    assert len(server.purgatory) == 2
    world.elect(2, [1, 2])
    assert world.error(written) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert world.error(consumer) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert len(server.purgatory) == 0


def test_leader_of_consecutive_epochs_keeps_follower_positions() -> None:
    world = World(3)
    world.create()
    world.produce(1, "a")
    world.pull(2, 3)
    world.pull(2)
    assert world.hw(1) == 0
    world.kill(3)
    world.elect(1, [1, 2])
    assert world.hw(1) == 1


@pytest.mark.mechanism(27)
def test_replica_without_leader_keeps_its_high_watermark() -> None:
    world = World(2)
    world.create(replicas=(1, 2))
    world.produce(1, "a")
    world.pull(2, rounds=2)
    world.kill(1)
    world.elect(-1, [1])
    assert world.latest(2).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert list(world.servers[2].replicas.fetchers.leaders) == []
    # Still kept: left out of the checkpoint it would begin at 0 after a crash.
    assert world.servers[2].replicas.high_watermarks() == {T0: 1}


def test_a_watermark_that_was_kept_is_believed_as_far_as_there_is_a_log() -> None:
    world = World(2)
    world.create(replicas=(1, 2))
    world.produce(1, "a", "b", "c")
    world.pull(2, rounds=2)
    world.checkpoint(2)
    world.kill(2, keeps=1)
    world.start(2)
    world.tell(to=[2])
    assert world.hw(2) == 1


def test_stopping_needs_an_epoch_that_is_not_old() -> None:
    world = World(2)
    world.create(replicas=(1, 2))
    world.elect(1, [1, 2])
    assert world.stop(2, delete=False, epoch=0) == {T0: ErrorCode.FENCED_LEADER_EPOCH}
    assert world.stop(2, delete=False) == {}
    assert list(world.servers[2].replicas.fetchers.leaders) == []
    assert T0 in world.servers[2].disk.logs
    world.elect(1, [1, 2])
    world.pull(2)


def test_deletion_needs_no_epoch_and_leaves_nothing() -> None:
    world = World(2)
    world.create(replicas=(1, 2))
    world.produce(1, "a")
    waits = world.produce(1, "b", acks=-1)
    assert world.stop(1, delete=True, epoch=-2) == {}
    assert world.error(waits) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert world.servers[1].disk.logs == {}
    assert world.error(world.produce(1, "c")) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert world.stop(1, delete=True, epoch=-2) == {}


def test_replicas_missing_in_a_full_command_are_stopped_not_deleted() -> None:
    world = World(1)
    world.create(replicas=(1,))
    world.create(T1, replicas=(1,))
    apply(world, 1, T0, full=True)
    assert world.error(world.produce(1, "a", where=T1)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert T1 in world.servers[1].disk.logs
    assert "stray" in world.events(1)


def test_unknown_partition_and_partition_of_another_broker_get_different_errors() -> None:
    world = World(2)
    world.create(replicas=(1,))
    assert world.error(world.produce(2, "a")) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert world.error(world.produce(2, "a", where=TopicPartition("u", 0))) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_disk_that_fails_takes_its_partitions_with_it_and_no_others() -> None:
    world = World(1)
    world.create(replicas=(1,))
    world.create(T1, replicas=(1,))
    world.log(1, T0).broken = True
    server = world.servers[1].replicas
    answer = server.produce(world.token(), 1, 0, [(T0, batch("a")), (T1, batch("b"))], world.now)
    assert answer is not None
    assert [each.error for each in answer] == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
    assert server.look_up(Lookup(T0, -1)).error is ErrorCode.KAFKA_STORAGE_ERROR
    world.collect(world.servers[1])
    assert "log_failed" in world.events(1)
    world.elect(1, [1])
    assert apply(world, 1, T0) == {T0: ErrorCode.KAFKA_STORAGE_ERROR}


def test_a_disk_that_fails_when_a_follower_is_to_lead_leaves_no_half_of_it() -> None:
    world = World(2)
    world.create(replicas=(1, 2))
    follower = world.servers[2]
    follower.disk.logs[T0].broken = True
    world.states[T0] = evolve(world.states[T0], leader=BrokerId(2), leader_epoch=LeaderEpoch(1))
    errors = apply(world, 2, T0)
    assert errors == {T0: ErrorCode.KAFKA_STORAGE_ERROR}
    assert T0 not in follower.replicas.partitions
    assert not follower.replicas.fetchers.leaders
    assert world.stop(2, delete=True) == {}


def test_stray_replicas_are_stopped_by_a_full_command_in_pieces() -> None:
    world = World(1)
    wheres = [TopicPartition("t", number) for number in range(7)]
    for where in wheres:
        world.create(where, replicas=(1,))
    server = world.servers[1]
    roles = tuple(world.role(where) for where in wheres[:5])
    for piece in in_pieces(LeaderAndIsr(BrokerId(9), CE, server.epoch, True, roles, ()), 2):
        assert server.replicas.apply(piece, world.now) == {}
    held = server.replicas.partitions
    assert [where for where in wheres if held[where].role is not None] == wheres[:5]
