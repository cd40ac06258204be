"""An exception that nobody foresaw is an error of one request, one partition or one listener: others go on."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest
import trio

import zab
from kraft_controller.core.names import BrokerId, TopicPartition
from kraft_controller.runtime.admin.entity_configs import Entity, NoSuchEntity, read_configs
from kraft_controller.runtime.config_feed import ConfigFeed
from kraft_controller.wire.znodes import DamagedNode
from replica.core.errors import ErrorCode as E
from replica.core.replica_messages import FetchPartition, Reply
from replica.storage import unified_log
from replica.wire.records import batch_of
from tests.unit.replica.listlog import ListLog
from tests.unit.replica.test_clock import NOON, Clock, OneLog, clock, leader_of
from tests.unit.replica.test_serving import BIG, T1, alone, fetched, wait
from tests.unit.replica.world import T0, World
from zab.storage.disk import DiskFile

assert clock is not None  # a fixture


class Unforeseen(Exception):
    pass


def raises(*_: object, **__: object) -> Any:
    raise Unforeseen


def test_fetch_whose_log_raises_spoils_no_write_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    world = alone()
    world.produce(1, "a", where=T1)
    token = wait(world, 1, FetchPartition(T0, 0, BIG), FetchPartition(T1, 1, BIG))
    monkeypatch.setattr(world.log(1, T1), "read", raises)
    monkeypatch.setattr(world.log(1, T0), "read", raises)
    assert world.error(world.produce(1, "b")) is E.NONE  # the fetch is answered in the midst of it
    assert [each.error for each in fetched(world, token)] == [E.UNKNOWN_SERVER_ERROR, E.NONE]
    assert "not_read" in [note.event for note in world.servers[1].notes]
    monkeypatch.undo()
    assert world.consume(1, 0) == ["b"]


def test_write_that_raises_is_an_error_of_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    world = alone()
    with monkeypatch.context() as patched:
        patched.setattr(world.log(1), "append_as_leader", raises)
        assert world.error(world.produce(1, "a")) is E.UNKNOWN_SERVER_ERROR
    assert world.error(world.produce(1, "b")) is E.NONE
    assert world.consume(1, 0) == ["b"]


def test_log_that_is_half_written_is_not_used_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    world = alone()
    log = world.log(1)
    usual = log.append_as_leader

    def half(*arguments: Any, **named: Any) -> Any:
        usual(*arguments, **named)
        raise Unforeseen

    with monkeypatch.context() as patched:
        patched.setattr(log, "append_as_leader", half)
        assert world.error(world.produce(1, "a")) is E.UNKNOWN_SERVER_ERROR
    assert world.error(world.produce(1, "b")) is E.KAFKA_STORAGE_ERROR
    assert world.error(world.produce(1, "c", where=T1)) is E.NONE
    assert world.tell(T0) == {1: {T0: E.KAFKA_STORAGE_ERROR}}  # the controller asks which replicas are left
    world.elect(1, [1])
    assert world.error(world.produce(1, "d")) is E.KAFKA_STORAGE_ERROR
    world.kill(1)
    world.start(1)
    assert world.tell(T0) == {1: {}}
    assert world.error(world.produce(1, "e")) is E.NONE
    assert world.consume(1, 0) == ["a", "e"]


@pytest.mark.parametrize("written", [0, 40], ids=["nothing", "a part"])
def test_write_that_raises_takes_its_log_out_of_service_if_bytes_stand_in_the_file(
    written: int, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock.now_ms = NOON
    logs = OneLog()
    usual = logs.log.segments.handles.get

    class Interrupted:
        def __init__(self, file: DiskFile) -> None:
            self._file = file

        def write(self, offset: int, data: bytes | bytearray) -> None:
            self._file.write(offset, data[:written])
            raise Unforeseen

    async def main() -> None:
        leader = leader_of(logs)

        async def produced() -> E:
            [answer] = await leader.produce(1, 1_000, [(T0, batch_of([(None, b"v")], NOON))])
            return answer.error

        assert await produced() is E.NONE
        with monkeypatch.context() as patched:
            if written:
                patched.setattr(logs.log.segments.handles, "get", lambda path: Interrupted(usual(path)))
            else:
                patched.setattr(unified_log, "validate", raises)
            assert await produced() is E.UNKNOWN_SERVER_ERROR
        assert logs.log.end_offset == 1
        assert await produced() is (E.KAFKA_STORAGE_ERROR if written else E.NONE)

    trio.run(main)


def test_truncation_that_raises_takes_its_log_out_of_service(monkeypatch: pytest.MonkeyPatch) -> None:
    log = OneLog().log
    log.append_as_leader(batch_of([(None, b"v")], NOON), 0, NOON)
    log.truncate_to(1)
    assert not log.half_changed
    for offset in (0, -1):
        with monkeypatch.context() as patched:
            patched.setattr(log.segments, "forget_positions", raises)
            with pytest.raises(Unforeseen):
                log.truncate_to(offset)
        assert (log.end_offset, log.half_changed) == (1, True)
        log.half_changed = False


def test_log_that_goes_offline_answers_waiting_producers_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(2)
    for where in (T0, T1):
        world.create(where, replicas=(1, 2))
    waiting, other = world.produce(1, "a", acks=-1), world.produce(1, "a", acks=-1, where=T1)
    world.log(1).broken = True
    assert world.error(world.produce(1, "b", acks=-1)) is E.KAFKA_STORAGE_ERROR
    assert (world.error(waiting), world.error(other)) == (E.KAFKA_STORAGE_ERROR, None)


def test_follower_goes_on_with_other_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(2)
    for where in (T0, T1):
        world.create(where, replicas=(1, 2))
        world.produce(1, "a", where=where)
    bad, usual = world.log(2, T0), ListLog.append_as_follower

    def append(self: ListLog, batches: bytes) -> Any:
        return raises() if self is bad else usual(self, batches)

    with monkeypatch.context() as patched:
        patched.setattr(ListLog, "append_as_follower", append)
        world.pull(2)
        assert (world.log(2, T0).records(), world.log(2, T1).records()) == ([], ["a"])
    world.pass_time(5_000)
    world.pull(2)
    assert world.log(2, T0).records() == ["a"]


def test_failing_role_listener_does_not_stop_the_others(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    clock.now_ms = NOON

    async def main() -> None:
        leader = leader_of(OneLog())
        heard: list[TopicPartition] = []
        leader.add_role_listener(raises)
        leader.add_role_listener(lambda taken: heard.append(taken.where))
        leader.disk_failed(T0, "a disk that failed")
        assert heard == [T0]
        [answer] = await leader.produce(1, 1_000, [(T0, batch_of([(None, b"v")], NOON))])
        assert answer.error is E.KAFKA_STORAGE_ERROR

    trio.run(main)
    assert [each.getMessage().partition(" ")[0] for each in caplog.records if each.exc_info] == ["role_listener_failed"]


def test_failing_reply_and_fetcher_wakeup_do_not_stop_the_others(
    clock: Clock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock.now_ms = NOON

    async def main() -> None:
        leader = leader_of(OneLog())
        heard: list[object] = []
        monkeypatch.setattr(leader._fetchers, "wake", raises)
        leader._waiting.update({1: raises, 2: heard.append})
        leader.core._outbox.replies += [Reply(1, []), Reply(2, [])]
        leader.core._outbox.leaders[BrokerId(7)] = None
        leader.throttle([], None)
        assert heard == [[]]

    trio.run(main)
    events = [each.getMessage().partition(" ")[0] for each in caplog.records if each.exc_info]
    assert events == ["reply_failed", "fetcher_wakeup_failed"]


def test_configuration_that_cannot_be_applied_keeps_no_other_from_being_heard(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard: list[str] = []

    def apply(entity: Entity, _: object) -> None:
        if entity.path.endswith("bad"):
            raise Unforeseen
        heard.append(entity.path)

    feed = ConfigFeed(apply)
    with caplog.at_level(logging.ERROR):
        for name in ("bad", "good"):
            feed._take(Entity.of("topics", name), {"retention.ms": "1"})
    assert heard == ["topics/good"]
    assert len([each for each in caplog.records if each.exc_info]) == 1


def test_configuration_that_could_not_be_applied_is_applied_when_read_again() -> None:
    fails, applied = [True], []

    def apply(entity: Entity, _: object) -> None:
        if fails.pop():
            raise Unforeseen
        applied.append(entity)

    feed, topic = ConfigFeed(apply), Entity.of("topics", "t")
    for _ in range(3):
        feed._take(topic, {"retention.ms": "1"})
        fails[:] = [False]
    assert applied == [topic]


async def test_name_that_no_node_can_have_keeps_no_other_configuration_from_being_read() -> None:
    class Session:
        async def get(self, path: str) -> tuple[bytes, None]:
            await trio.lowlevel.checkpoint()
            if "\0" in path:
                raise zab.BadArguments(-8, "an invalid character")
            return b'{"version":1,"config":{"retention.ms":"1"}}', None

    odd, plain = Entity("topics/\0"), Entity("topics/t")
    found = await read_configs(cast("zab.Session", Session()), [odd, plain])
    assert isinstance(found[odd], DamagedNode)
    assert found[plain] == {"retention.ms": "1"}
    for name in ("\0", "x/../y", ".."):
        with pytest.raises(NoSuchEntity):
            Entity.of("topics", name)
