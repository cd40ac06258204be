"""Where histories part. Each of these once lost or twisted what was acknowledged."""

from __future__ import annotations

import pytest

from replica.core.errors import ErrorCode
from replica.core.replica_settings import ReplicaSettings
from tests.unit.replica.world import T0, World

BOTH_WAYS = pytest.mark.parametrize("diverges", [True, False], ids=["told with the fetch", "asked before"])


def pair(*, diverges: bool = True, min_insync: int = 1) -> World:
    world = World(2, settings=ReplicaSettings(fetch_diverges=diverges, min_insync=min_insync))
    world.create(replicas=(1, 2))
    return world


@pytest.mark.mechanism(25, 24)
@BOTH_WAYS
def test_restarted_follower_keeps_records_above_its_high_watermark(diverges: bool) -> None:
    """KAFKA-1211, KIP-101 first case. Both have m0 and m1, both were acknowledged; the follower has not heard yet that
    m1 is committed. Were it to cut its log there, and the leader to die, m1 would be gone."""
    world = pair(diverges=diverges)
    world.produce(1, "m0")
    world.pull(2, rounds=2)
    token = world.produce(1, "m1", acks=-1)
    world.pull(2)
    request = world.ask(2)
    assert request is not None
    world.serve(request)  # the leader knows that 2 has m1; the answer, with the watermark, is lost
    assert world.error(token) is ErrorCode.NONE
    assert (world.hw(1), world.hw(2)) == (2, 1)

    world.checkpoint(2)
    world.kill(2)
    world.elect(1, [1])
    world.start(2)
    world.tell_metadata()
    world.tell(to=[2])
    assert world.hw(2) == 1
    world.pull(2, rounds=2)
    world.write_isrs(1)
    assert world.isr() == (1, 2)

    world.kill(1)
    world.elect(2, [2])
    assert world.log(2).records() == ["m0", "m1"]
    assert world.consume(2, 0) == ["m0", "m1"]


@BOTH_WAYS
def test_it_keeps_it_too_if_the_leader_dies_before_it_has_fetched_again(diverges: bool) -> None:
    world = pair(diverges=diverges)
    world.produce(1, "m0")
    world.pull(2, rounds=2)
    world.produce(1, "m1", acks=-1)
    world.pull(2)
    world.checkpoint(2)
    world.kill(2)
    world.start(2)
    world.tell(to=[2])
    world.kill(1)
    world.elect(2, [2])
    assert world.log(2).records() == ["m0", "m1"]
    assert world.hw(2) == 2  # alone in sync: what it has is committed


@pytest.mark.mechanism(19, 25)
@BOTH_WAYS
def test_leader_epochs_distinguish_records_at_one_offset(diverges: bool) -> None:
    """KIP-101, second case. Both machines die, and the one that comes back first has lost its tail. It writes another
    record where the other one has m1. Watermarks say nothing of it: both are beyond."""
    world = pair(diverges=diverges)
    world.produce(1, "m0")
    world.pull(2, rounds=2)
    world.log(2).flush()
    world.produce(1, "m1")
    world.pull(2, rounds=2)
    for broker in (1, 2):
        world.checkpoint(broker)
    world.kill(1)
    world.kill(2, keeps=1)
    world.start(2)
    world.elect(2, [2])
    world.produce(2, "other")
    assert world.log(1).records() == ["m0", "m1"]
    assert world.log(2).records() == ["m0", "other"]

    world.start(1)
    world.tell_metadata()
    world.tell(to=[1])
    world.pull(1, rounds=4)
    assert world.log(1).written() == world.log(2).written()
    assert world.log(1).records() == ["m0", "other"]


@pytest.mark.mechanism(19)
@BOTH_WAYS
def test_a_leader_that_does_not_know_our_epoch_is_asked_again_about_an_older_one(diverges: bool) -> None:
    """KIP-279. Unclean elections in a row: each leads alone for a while, and the logs are

        1: a0(e0) b1(e2) b2(e2)         2: a0(e0) c1(e1) c2(e1) c3(e1)

    The leader 1 is asked about e1, and has only e0: it ended at 1. Then all beyond is not his."""
    world = pair(diverges=diverges)
    world.produce(1, "a0")
    world.pull(2, rounds=2)
    world.kill(1)
    world.elect(2, [2])  # epoch 1
    world.produce(2, "c1", "c2", "c3")
    world.kill(2)
    world.start(1)
    world.elect(1, [1])  # epoch 2
    world.produce(1, "b1", "b2")
    world.start(2)
    world.tell_metadata()
    world.tell(to=[2])
    world.pull(2, rounds=4)
    assert world.log(2).written() == world.log(1).written()
    assert world.log(2).records() == ["a0", "b1", "b2"]


@BOTH_WAYS
def test_epochs_of_one_record_each_taken_in_turns(diverges: bool) -> None:
    """They part many times over, so one answer is not enough: each says only something of one epoch."""
    world = pair(diverges=diverges)
    world.produce(1, "common")
    world.pull(2, rounds=2)
    for turn in range(6):
        alone, other = (1, 2) if turn % 2 else (2, 1)
        world.kill(other)
        if not world.servers[alone].alive:
            world.start(alone)
        world.elect(alone, [alone])
        world.produce(alone, f"of {alone} in turn {turn}")
    world.start(2)
    world.tell_metadata()
    world.tell(to=[2])
    for _ in range(12):
        world.pull(2)
    assert world.log(2).written() == world.log(1).written()
    assert len(world.log(1).records()) == 4


@BOTH_WAYS
def test_an_epoch_in_which_nothing_was_written_does_not_keep_them_asking(diverges: bool) -> None:
    """KAFKA-10706: the follower has led, and written nothing. Its last record is of an older epoch: that counts."""
    world = pair(diverges=diverges)
    world.produce(1, "a")
    world.pull(2, rounds=2)
    for leader in (2, 1, 2, 1):
        world.elect(leader, [1, 2])
    world.pull(2, rounds=2)
    world.produce(1, "b", acks=-1)
    world.pull(2, rounds=2)
    assert world.log(2).records() == ["a", "b"]
    assert world.hw(1) == 2


@pytest.mark.mechanism(22)
@BOTH_WAYS
def test_diverging_fetch_does_not_count_as_a_position(diverges: bool) -> None:
    world = pair(diverges=diverges)
    world.produce(1, "m0")
    world.pull(2, rounds=2)
    world.produce(1, "m1", "m2", "m3")  # 2 does not get them
    world.kill(1)
    world.elect(2, [2])
    world.produce(2, "n1")
    world.start(1)
    world.elect(2, [2, 1])  # in sync, says the controller, who does not know
    world.tell(to=[1])
    request = world.ask(1)
    assert request is not None
    world.hear(1, request, world.serve(request))
    assert world.hw(2) <= 2
    assert world.leading(2).followers[world.servers[1].id].end_offset == -1
    assert world.log(1).end_offset == 1
    world.pull(1, rounds=3)
    assert world.log(1).records() == ["m0", "n1"]


def test_a_follower_that_has_more_than_its_leader_cuts_its_log_and_lives() -> None:
    """KAFKA-3410: the leader has lost its disk, and what was there. That is to be cried out, and no reason to stop."""
    world = pair()
    world.produce(1, "a", "b", "c")
    world.pull(2, rounds=2)
    world.checkpoint(2)
    world.kill(1)
    world.kill(2)
    world.servers[1].disk.delete(T0)
    world.start(1)
    world.start(2)
    world.elect(1, [1, 2])
    world.pull(2, rounds=4)
    assert world.log(2).records() == []
    assert "committed_records_cut" in world.events(2)
    world.produce(1, "d")
    world.pull(2, rounds=3)
    assert world.log(2).records() == ["d"]


def test_a_follower_whose_place_was_deleted_starts_where_the_leader_does() -> None:
    world = pair()
    world.produce(1, "a", "b")
    world.pull(2, rounds=2)
    world.kill(2)
    world.elect(1, [1])
    world.produce(1, "c", "d")
    assert world.servers[1].replicas.delete_records(world.token(), 0, [(T0, 4)], world.now) is not None
    world.produce(1, "e")
    world.start(2)
    world.tell_metadata()
    world.tell(to=[2])
    for _ in range(6):
        world.pull(2)
        world.now += 1_000
    assert world.log(2).start_offset == 4
    assert world.log(2).records() == ["e"]


def test_fetches_of_another_leader_epoch_are_refused_and_change_nothing() -> None:
    """KAFKA-7395: whoever has not heard of the newest leader must not move its watermark."""
    world = World(3)
    world.create()
    old = world.ask(2)
    assert old is not None
    world.elect(1, [1, 2, 3], tell=[1])
    world.produce(1, "a")
    [late] = world.serve(old)
    assert late.error is ErrorCode.FENCED_LEADER_EPOCH
    assert world.leading(1).followers[world.servers[2].id].end_offset <= 0
    world.hear(2, old, [late])
    assert world.ask(2) is None  # the controller will tell

    world.elect(1, [1, 2, 3], tell=[3])
    early = world.ask(3)
    assert early is not None
    [answer] = world.serve(early)
    assert answer.error is ErrorCode.UNKNOWN_LEADER_EPOCH
    world.hear(3, early, [answer])
    assert world.ask(3) is None
    world.now += world.settings.fetch_backoff_ms
    assert world.ask(3) is not None


@pytest.mark.mechanism(17)
def test_consumers_too_may_say_which_epoch_they_believe_in() -> None:
    world = pair()
    world.elect(1, [1, 2])
    world.elect(1, [1, 2])
    [old] = world.fetch_as_consumer(1, 0, leader_epoch=1)
    [new] = world.fetch_as_consumer(1, 0, leader_epoch=3)
    assert (old.error, new.error) == (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH)
    assert old.leader == (1, 2)
    [elsewhere] = world.fetch_as_consumer(2, 0)
    assert elsewhere.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert elsewhere.leader == (1, 2)


def test_an_answer_of_an_older_epoch_is_not_appended() -> None:
    world = World(3)
    world.create()
    world.produce(1, "a")
    request = world.ask(3)
    assert request is not None
    answers = world.serve(request)
    world.elect(2, [2, 3])
    world.hear(3, request, answers)
    assert world.log(3).records() == []


def test_new_leader_names_no_end_offset_before_records_already_read() -> None:
    """Its watermark lags until everybody in sync has fetched from it."""
    world = World(3)
    world.create()
    world.produce(1, "a", "b")
    world.pull(2, 3, rounds=1)
    world.pull(2, 3)  # both asked for what comes next: committed at 1; but 2 heard of it first
    assert world.hw(1) == 2
    world.servers[2].replicas.partitions[T0].high_watermark = 0
    world.kill(1)
    world.elect(2, [2, 3])
    assert world.hw(2) == 0
    assert world.latest(2).error is ErrorCode.OFFSET_NOT_AVAILABLE
    world.pull(3)
    assert world.latest(2).offset == 2


def test_joining_replica_has_reached_the_start_of_the_epoch() -> None:
    """KAFKA-7128: the new leader's watermark lags; a slow follower is beyond it, and lacks what is committed."""
    world = World(3)
    world.create()
    world.produce(1, "a")
    world.pull(2, 3, rounds=2)
    world.elect(1, [1, 2])
    world.pull(2, 3)
    world.servers[1].writes.clear()
    token = world.produce(1, "b", acks=-1)
    world.elect(1, [1, 2])
    world.pull(2, rounds=2)
    assert world.hw(1) == 2
    assert world.error(token) is ErrorCode.NONE
    world.servers[2].replicas.partitions[T0].high_watermark = 1
    world.kill(1)
    world.elect(2, [2])
    # Alone in sync it knows at once; with a third member, who is silent, it does not.
    world.elect(2, [2, 1])
    world.servers[2].replicas.partitions[T0].high_watermark = 1
    slow = world.ask(3)
    assert slow is not None
    world.serve(slow)
    assert world.leading(2).followers[world.servers[3].id].end_offset == 1
    assert world.servers[2].writes == []
    world.pull(3, rounds=2)
    assert [write.state.isr for write in world.servers[2].writes] == [(2, 1, 3)]
