"""A new topic costs the same however many topics there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

import pytest

from kraft_controller.core.configuration.throttles import FOLLOWER_REPLICAS, LEADER_REPLICAS
from kraft_controller.core.names import BrokerId, LeaderEpoch, TopicPartition
from kraft_controller.runtime.admin.entity_configs import Entity
from replica.core.partitions.log_config import LogConfig
from replica.core.replica_messages import RoleTaken
from replica.runtime import logs
from replica.runtime.configuration.dynamic_config_manager import DynamicConfigManager
from replica.runtime.configuration.topic_configs import TopicConfigs
from replica.storage.log_manager import LogManager
from replica.storage.memory_directory import memory_directory
from tests.cost.meter import steps
from tests.unit.kraft_controller.cluster import Controller, Store
from tests.unit.replica.world import World


class CountedName(str):
    """A topic name that counts its comparisons with other names."""

    __slots__ = ()
    comparisons = 0

    def __eq__(self, other: object) -> bool:
        CountedName.comparisons += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_topic_list_is_compared_in_linear_time() -> None:
    """A list of 4,000 topics once took eight million comparisons, with every new topic."""
    count = 400
    store = Store()
    for number in range(count):
        store.topic(CountedName(f"t{number}"), (1, 2))
    controller = Controller(store).take_over()
    assert len(controller.context.topics) == count
    store.topic("new", (1, 2))
    CountedName.comparisons = 0
    controller.run(controller.term.topic_changes.process_list())
    assert "new" in controller.context.topics
    assert CountedName.comparisons < 5 * count


FEW, MANY = 10, 400


def _log_manager(topics: int) -> Callable[[], object]:
    manager = LogManager([memory_directory()], lambda topic: LogConfig())
    manager.load(1, "cluster")
    for number in range(topics):
        manager.get_or_create((f"t{number}", 0))
    return lambda: manager.reconfigure("t1")


def _replica_manager(topics: int) -> Callable[[], object]:
    world = World(1)
    for number in range(topics):
        world.create(TopicPartition(f"t{number}", 0), replicas=(1,))
    manager = world.servers[1].replicas
    assert len(manager.partitions) == topics
    return lambda: manager.require_in_sync("t1", 1, world.now)


class Quotas:
    """The part of the replica manager and of the log manager that the dynamic configurations call."""

    def __init__(self) -> None:
        self.following: list[TopicPartition] = []
        self.leading: list[TopicPartition] = []

    def add_role_listener(self, listener: Callable[[RoleTaken], None]) -> None:
        pass

    def reconfigure(self, topic: str) -> None:
        pass

    def require_in_sync(self, topic: str, replicas: int | None) -> None:
        pass

    def throttle(self, partitions: Iterable[TopicPartition], bytes_s: int | None) -> None:
        self.following = list(partitions)

    def throttle_followers(self, partitions: Iterable[TopicPartition], bytes_s: int | None) -> None:
        self.leading = list(partitions)


def _dynamic_configs(topics: int) -> tuple[DynamicConfigManager, Quotas]:
    log, quotas = logs.Log(1), Quotas()
    configs = DynamicConfigManager(
        BrokerId(1), TopicConfigs(LogConfig(), log), cast(Any, quotas), cast(Any, quotas), {}, log, lambda *_: None
    )
    for number in range(topics):
        for partition in (0, 1):
            where = TopicPartition(f"t{number}", partition)
            configs.role_taken(RoleTaken(where, partition == 0, LeaderEpoch(1)))
    return configs, quotas


def _topic_config(topics: int) -> Callable[[], object]:
    configs, _ = _dynamic_configs(topics)
    return lambda: configs._apply(Entity.of("topics", "t1"), {"retention.ms": "5"})


@pytest.mark.parametrize("made", [_log_manager, _replica_manager, _topic_config])
async def test_configuring_one_topic_does_not_examine_the_others(made: Callable[[int], Callable[[], object]]) -> None:
    few, many = made(FEW), made(MANY)
    few()
    many()
    assert steps(many) < 1.2 * steps(few)


async def test_only_partitions_of_throttled_topics_are_examined_and_throttled() -> None:
    def throttled(topics: int) -> int:
        configs, quotas = _dynamic_configs(topics)
        values = {LEADER_REPLICAS: "0:1,1:1", FOLLOWER_REPLICAS: "*"}
        count = steps(lambda: configs._apply(Entity.of("topics", "t1"), values))
        assert (quotas.leading, quotas.following) == ([TopicPartition("t1", 0)], [TopicPartition("t1", 1)])
        configs._apply(Entity.of("topics", "t2"), {LEADER_REPLICAS: "*"})
        assert quotas.leading == [TopicPartition("t1", 0), TopicPartition("t2", 0)]
        configs._apply(Entity.of("topics", "t1"), {})
        assert (quotas.leading, quotas.following) == ([TopicPartition("t2", 0)], [])
        return count

    throttled(FEW)  # the first log line compiles and loads more
    assert throttled(MANY) < 1.2 * throttled(FEW)
