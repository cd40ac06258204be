"""Fetch sessions between brokers: what a request and its answer cost, and that a follower in one misses nothing."""

from __future__ import annotations

import sys
from types import FrameType

import pytest
from attrs import evolve

from kraft_controller.core.names import BrokerEpoch, BrokerId, TopicPartition, Version
from kraft_controller.core.state import Assignment
from replica.core.errors import ErrorCode
from replica.core.fetching.fetch_session_cache import EPOCH_MAX
from replica.core.fetching.replica_fetcher import FetchSessionHandler
from replica.core.partitions.follower_role import FollowerRole
from replica.core.replica_messages import Fetch, FetchPartition, FetchSessionPlace, LeaderRequest, SessionFetched
from replica.core.replica_settings import ReplicaSettings
from replica.runtime.replication.leader_requests import fetch_body, fetched
from replica.wire.schemas.data_schemas import FetchResponse, ForgottenTopic
from tests.unit.replica.world import T0, World

T1 = TopicPartition("t", 1)
LAG = ReplicaSettings().lag_time_max_ms


def world_of(*wheres: TopicPartition, brokers: int = 2, settings: ReplicaSettings | None = None) -> World:
    """Broker 1 leads all of them; the others have a session with it, and every partition is at rest."""
    world = World(brokers, sessions=True, settings=settings)
    for where in wheres:
        world.create(where, replicas=range(1, brokers + 1))
    world.pull(*range(2, brokers + 1), rounds=2)
    world.write_isrs(1)
    world.pull(*range(2, brokers + 1), rounds=2)
    return world


def session_of(world: World, follower: int, leader: int = 1) -> FetchSessionHandler:
    return world.servers[follower].replicas.fetchers._fetchers[BrokerId(leader)]._session


def asked(world: World, follower: int = 2) -> Fetch:
    request = world.ask(follower)
    assert request is not None
    assert request.fetch is not None
    return request.fetch


def exchange(world: World, follower: int = 2, where: TopicPartition = T0) -> tuple[Fetch, SessionFetched]:
    """With the leader of `where`."""
    request = world.ask(follower, where)
    assert request is not None
    assert request.fetch is not None
    answers = world.serve(request)
    assert isinstance(answers, SessionFetched)
    world.hear(follower, request, answers)
    world.check_clean()
    return request.fetch, answers


def named(fetch: Fetch) -> list[TopicPartition]:
    return [part.where for part in fetch.parts]


# -- cost ----------------------------------------------------------------------------------------------------


class Calls:
    """Counts calls of functions, in Python and in C, while it is entered."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Calls:
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _count(self, _: FrameType, event: str, __: object) -> None:
        self.count += event in ("call", "c_call")


def calls_of_a_round(idle: int) -> tuple[int, int]:
    """A record that two followers fetch and that is committed; and a round in which nothing happens."""
    world = world_of(T0, *(TopicPartition("idle", number) for number in range(idle)), brokers=3)
    with Calls() as busy:
        token = world.produce(1, "a", acks=-1)
        for _ in range(3):
            for follower in (2, 3):
                request = world.servers[follower].replicas.fetchers.next_request(
                    BrokerId(1), world.servers[follower].epoch, world.now
                )
                assert request is not None
                assert request.fetch is not None
                fetch_body(request.fetch)
                world.hear(follower, request, world.serve(request))
    assert world.error(token) is ErrorCode.NONE
    with Calls() as rest:
        world.pass_time(500)
        world.pull(2, 3)
    return busy.count, rest.count


def test_idle_partitions_cost_nothing() -> None:
    few, many = calls_of_a_round(10), calls_of_a_round(500)
    assert many == few


# -- what is said, and what is answered ----------------------------------------------------------------------


def test_session_requests_and_responses_contain_only_changes() -> None:
    world = world_of(T0, T1)
    fetch, answers = exchange(world)
    assert (named(fetch), list(answers)) == ([], [])
    world.produce(1, "a")
    fetch, answers = exchange(world)
    assert (named(fetch), [each.where for each in answers]) == ([], [T0])
    fetch, answers = exchange(world)
    assert named(fetch) == [T0]
    assert [(each.where, each.high_watermark, each.records) for each in answers] == [(T0, 1, b"")]
    assert world.hw(2) == 1
    fetch, answers = exchange(world)
    assert (named(fetch), list(answers)) == ([], [])


@pytest.mark.parametrize("reads", [False, True])
def test_append_to_any_partition_completes_the_waiting_request(reads: bool) -> None:
    world = world_of(T0, T1, brokers=3, settings=ReplicaSettings(follower_reads=reads))
    request = world.ask(2)
    assert request is not None
    assert request.fetch is not None
    token = world.token()
    leader = world.servers[1].replicas
    assert leader.fetch(token, request.fetch, world.now) is None
    world.pull(3)
    assert token not in world.answers
    world.produce(1, "a", where=T1)
    [answer] = world.answers[token]
    assert answer.where == T1
    world.hear(2, request, world.answers[token])  # type: ignore[arg-type]
    request = world.ask(2)
    assert request is not None
    assert request.fetch is not None
    token = world.token()
    assert leader.fetch(token, request.fetch, world.now) is None
    world.pull(3, rounds=2)
    assert world.hw(1, T1) == 1
    assert (token in world.answers) is reads  # a moved high watermark alone wakes where consumers read of followers
    world.pass_time(request.fetch.wait_ms)
    [answer] = world.answers[token]
    assert answer.high_watermark == 1  # type: ignore[union-attr]
    world.check_clean()


def test_the_wire_keeps_the_place_in_the_session() -> None:
    world = world_of(T0, T1)
    forgotten = (TopicPartition("u", 2), T1, T0)
    body = fetch_body(evolve(asked(world), session=FetchSessionPlace(7, 3, forgotten)))
    assert (body.session_id, body.session_epoch, body.topics) == (7, 3, [])
    assert body.forgotten_topics_data == [
        ForgottenTopic("t", [0, 1]),
        ForgottenTopic("u", [2]),
    ]
    refused = fetched(FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH))
    assert (refused.id, refused.error) == (0, ErrorCode.INVALID_FETCH_SESSION_EPOCH)


# -- the ISR -------------------------------------------------------------------------------------------------


def test_requests_that_do_not_name_a_partition_keep_its_follower_in_sync() -> None:
    world = world_of(T0, T1)
    for _ in range(3 * LAG // 1_000):
        world.pass_time(1_000)
        world.pull(2)
    silent_since = world.now
    world.produce(1, "a")
    while world.now - silent_since < LAG - 1_000:
        world.pass_time(1_000)
        world.write_isrs(1)
        assert world.isr() == (1, 2)
    world.pass_time(LAG)
    world.write_isrs(1)
    assert world.isr() == (1,)


def test_a_session_in_use_does_not_keep_a_follower_in_sync_that_cannot_append() -> None:
    world = world_of(T0, T1)
    world.pass_time(3 * LAG)
    world.pull(2)
    world.produce(1, "a")
    for _ in range(2 * LAG // 1_000):
        world.pass_time(1_000)
        request = world.ask(2)
        assert request is not None
        answers = world.serve(request)
        assert isinstance(answers, SessionFetched)
        answers[:] = [each for each in answers if each.where != T0]  # it never gets what is new of T0
        world.hear(2, request, answers)
        world.write_isrs(1)
    assert world.isr() == (1,)
    assert world.isr(T1) == (1, 2)


def test_a_follower_that_is_assigned_again_joins_without_anything_new() -> None:
    world = world_of(T0, T1, brokers=3)
    replicas = world.assignments[T0]
    state = world.states[T0]
    world.states[T0] = evolve(state, isr=(BrokerId(1), BrokerId(2)), version=Version(state.version + 1))
    for assigned in (Assignment((BrokerId(1), BrokerId(2))), replicas):
        world.assignments[T0] = assigned
        world.tell(to=[1])
        world.check_clean()
    world.pull(3)
    world.write_isrs(1)
    assert world.isr() == (1, 2, 3)
    world.pull(3, rounds=2)
    assert T0 not in world.servers[1].replicas.fetches.sessions._open[BrokerId(3)].dirty


# -- changes of partitions -----------------------------------------------------------------------------------


def test_a_new_epoch_of_the_same_leader_is_fetched_in_the_same_session() -> None:
    world = world_of(T0, T1)
    kept = session_of(world, 2).id
    world.elect(1, (1, 2))
    world.produce(1, "a")
    fetch, _ = exchange(world)
    assert named(fetch) == [T0]
    assert session_of(world, 2).id == kept
    world.pull(2, rounds=2)
    assert (world.hw(1), world.hw(2)) == (1, 1)


def test_high_watermark_in_an_answer_that_the_follower_could_not_apply_is_sent_again() -> None:
    world = world_of(T0, T1)
    world.produce(1, "a")
    exchange(world)
    request = world.ask(2)
    assert request is not None
    answers = world.serve(request)
    assert isinstance(answers, SessionFetched)
    assert [each.high_watermark for each in answers] == [1]
    world.elect(1, (1, 2))
    world.hear(2, request, answers)
    assert world.hw(2) == 0
    fetch, _ = exchange(world)
    assert fetch.session is not None
    assert (fetch.session.forgotten, named(fetch)) == ((T0,), [T0])
    world.pull(2, rounds=2)
    assert (world.hw(1), world.hw(2)) == (1, 1)
    assert not session_of(world, 2).unapplied


def test_a_partition_that_is_led_elsewhere_leaves_the_session() -> None:
    world = world_of(T0, T1)
    world.elect(2, (1, 2))
    fetch, _ = exchange(world, where=T1)
    assert fetch.session is not None
    assert fetch.session.forgotten == (T0,)
    assert set(world.servers[1].replicas.fetches.sessions._open[BrokerId(2)].requests) == {T1}
    world.pull(1, rounds=2)
    world.produce(2, "a")
    world.pull(1, rounds=2)
    assert (world.hw(1), world.hw(2)) == (1, 1)
    world.check_clean()


def test_an_error_pauses_one_partition_and_the_session_goes_on() -> None:
    world = world_of(T0, T1)
    world.elect(1, (1, 2), tell=[2])  # the leader has not been told yet
    fetch, answers = exchange(world)
    assert [each.error for each in answers] == [ErrorCode.UNKNOWN_LEADER_EPOCH]
    fetch, answers = exchange(world)
    assert fetch.session is not None
    assert (named(fetch), fetch.session.forgotten, list(answers)) == ([], (T0,), [])
    world.tell(to=[1])
    world.now = source_due(world)
    kept = fetch.session.id
    fetch, _ = exchange(world)
    assert named(fetch) == [T0]
    assert session_of(world, 2).id == kept


def source_due(world: World) -> int:
    at = world.servers[2].replicas.fetchers.resume_at(BrokerId(1), world.now)
    assert at is not None
    return at


def test_a_follower_that_diverged_truncates_and_goes_on() -> None:
    world = world_of(T0, T1, brokers=3)
    world.produce(1, "a")
    world.pull(2, 3, rounds=2)
    world.produce(1, "lost")
    world.kill(1)
    world.elect(2, (2, 3))
    world.pull(3, rounds=2)
    world.produce(2, "b")
    world.start(1)
    for where in (T0, T1):
        world.tell(where)
    world.tell_metadata()
    world.pull(1, 3, rounds=4)
    assert [record for _, record in world.log(1).written().values()] == [b"a", b"b"]
    assert "truncated" in world.events(1)
    world.check_clean()


def test_a_start_that_retention_moved_reaches_the_follower_and_the_leader() -> None:
    world = world_of(T0, T1)
    world.produce(1, "a", "b")
    world.pull(2, rounds=3)
    world.log(1).increment_start_offset(1)
    world.servers[1].replicas.logs_retired()
    [told] = exchange(world)[1]
    assert (told.where, told.start_offset, world.log(2).start_offset) == (T0, 1, 1)
    exchange(world)
    world.log(2).increment_start_offset(2)
    world.servers[2].replicas.logs_retired()
    exchange(world)
    assert world.leading(1).followers[BrokerId(2)].start_offset == 2


def test_a_throttled_partition_leaves_the_session_until_it_may_be_fetched() -> None:
    world = World(2, sessions=True)
    world.create(T1, replicas=(1, 2))
    world.create(T0, replicas=(1, 2))
    world.elect(1, (1,))  # 2 is not in sync, so it is throttled
    world.pull(2, rounds=2)
    world.produce(1, "a" * 2_000)
    follower = world.servers[2].replicas
    follower.fetchers.throttle([T0], 1_000)
    exchange(world)
    assert world.log(2).end_offset == 1
    fetch, _ = exchange(world)
    assert fetch.session is not None
    assert fetch.session.forgotten == (T0,)
    world.produce(1, "b")
    assert not exchange(world)[1]
    world.now = source_due(world)
    exchange(world)
    assert world.log(2).end_offset == 2


# -- sessions that end ---------------------------------------------------------------------------------------


def test_a_lost_answer_is_followed_by_a_complete_request() -> None:
    world = world_of(T0, T1)
    world.produce(1, "a")
    request = world.ask(2)
    assert request is not None
    world.serve(request)  # and the answer is lost
    fetch = asked(world)
    assert fetch.session == FetchSessionPlace()
    assert set(named(fetch)) == {T0, T1}
    request = LeaderRequest(BrokerId(1), fetch)
    world.servers[2].replicas.fetchers.failed(request, world.now)
    world.now += 5_000
    world.pull(2, rounds=2)
    assert world.hw(2) == 1
    assert exchange(world)[0].parts == ()


@pytest.mark.parametrize("wrong", [FetchSessionPlace(99, 3), FetchSessionPlace(0, 77)])
def test_a_request_that_does_not_fit_is_refused_and_the_next_one_is_complete(wrong: FetchSessionPlace) -> None:
    world = world_of(T0, T1)
    request = world.ask(2)
    assert request is not None
    assert request.fetch is not None
    assert request.fetch.session is not None
    other = evolve(request, fetch=evolve(request.fetch, session=evolve(wrong, id=wrong.id or request.fetch.session.id)))
    refused = world.serve(other)
    assert isinstance(refused, SessionFetched)
    assert refused.error in (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    world.hear(2, request, refused)
    assert set(named(exchange(world)[0])) == {T0, T1}
    assert exchange(world)[0].parts == ()


def test_epochs_go_round() -> None:
    world = world_of(T0, T1)
    world.servers[1].replicas.fetches.sessions._open[BrokerId(2)].epoch = session_of(world, 2).epoch = EPOCH_MAX
    exchange(world)
    fetch, _ = exchange(world)
    assert fetch.session is not None
    assert fetch.session.epoch == 1


def test_a_follower_that_asks_while_another_request_of_it_waits_begins_anew() -> None:
    world = world_of(T0, T1)
    token, fetch = world.token(), asked(world)
    assert world.servers[1].replicas.fetch(token, fetch, world.now) is None
    assert fetch.session is not None
    following = evolve(fetch, session=evolve(fetch.session, epoch=fetch.session.epoch + 1))
    refused = world.servers[1].replicas.fetch(world.token(), following, world.now)
    assert isinstance(refused, SessionFetched)
    assert refused.error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    world.collect(world.servers[1])
    assert world.answers[token] == []
    assert len(world.servers[1].replicas.purgatory) == 0


def test_a_fetch_outside_the_session_ends_it() -> None:
    world = world_of(T0, T1)
    fetch = evolve(asked(world), session=None, wait_ms=0)
    assert world.servers[1].replicas.fetch(world.token(), fetch, world.now) == []
    assert len(world.servers[1].replicas.fetches.sessions) == 0


def test_no_session_for_a_broker_that_is_not_there_nor_for_too_many_partitions() -> None:
    world = world_of(T0, T1, settings=ReplicaSettings(session_partitions_max=1))
    assert len(world.servers[1].replicas.fetches.sessions) == 0
    assert set(named(asked(world))) == {T0, T1}
    leader = world.servers[1].replicas
    stranger = Fetch((FetchPartition(T0, 0, 1, 0),), BrokerId(7), BrokerEpoch(1), session=FetchSessionPlace())
    answers = leader.fetch(world.token(), stranger, world.now)
    assert answers is not None
    assert not isinstance(answers, SessionFetched)
    fetch = Fetch((FetchPartition(T0, 0, 1, 0),), BrokerId(2), BrokerEpoch(1), session=FetchSessionPlace())
    begun = leader.fetch(world.token(), fetch, world.now)
    assert isinstance(begun, SessionFetched)
    more = evolve(fetch, parts=(FetchPartition(T1, 0, 1, 0),), session=FetchSessionPlace(begun.id, 1))
    refused = leader.fetch(world.token(), more, world.now)
    assert isinstance(refused, SessionFetched)
    assert refused.error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(leader.fetches.sessions) == 0


def test_another_life_of_a_broker_needs_another_session() -> None:
    world = world_of(T0, T1)
    fetch = evolve(asked(world), broker_epoch=BrokerEpoch(999_999), wait_ms=0)
    refused = world.servers[1].replicas.fetch(world.token(), fetch, world.now)
    assert isinstance(refused, SessionFetched)
    assert refused.error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_only_a_partition_that_can_be_fetched_and_is_missing_ends_a_wait() -> None:
    world = world_of(T0)
    follower = world.servers[2].replicas
    asked(world)
    assert not follower.fetchers.interrupts(BrokerId(1), world.now)
    world.elect(1, (1, 2))
    assert not follower.fetchers.interrupts(BrokerId(1), world.now)  # the leader answers, as something changed there
    world.create(T1, replicas=(1, 2))
    asked(world)
    assert isinstance(follower.partitions[T1].role, FollowerRole)
    assert not follower.fetchers.interrupts(BrokerId(1), world.now)
    world.create(TopicPartition("t", 2), replicas=(1, 2))
    assert follower.fetchers.interrupts(BrokerId(1), world.now)
