"""The metadata cache: the state of the newest command, and nothing else."""

from __future__ import annotations

import pytest

from kraft_controller.core.command_handler import ControllerCommandHandler
from kraft_controller.core.commands import Command, Numbered, Role, UpdateMetadata
from kraft_controller.core.error_codes import STALE_CONTROLLER_EPOCH
from kraft_controller.core.names import (
    DELETED,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicId,
    TopicPartition,
)
from kraft_controller.core.state import Assignment, Broker, Endpoint, PartitionState
from replica.core.metadata_cache import MetadataCache

ONE, TWO = BrokerId(1), BrokerId(2)
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def role(where: TopicPartition, leader: BrokerId = ONE, ident: str = "first") -> Role:
    state = PartitionState(leader, (ONE, TWO), LeaderEpoch(0), ControllerEpoch(1))
    return Role(where, TopicId(ident), state, Assignment((ONE, TWO)))


def says(*roles: Role, full: bool = False, epoch: int = 1, controller: BrokerId = ONE) -> UpdateMetadata:
    brokers = tuple(
        Broker(ident, BrokerEpoch(5), (Endpoint("PLAINTEXT", f"host{ident}", 9092),), {"PLAINTEXT": "PLAINTEXT"})
        for ident in (ONE, TWO)
    )
    return UpdateMetadata(controller, ControllerEpoch(epoch), BrokerEpoch(5), roles, brokers, full)


@pytest.mark.mechanism(88)
def test_command_of_older_controller_is_ignored() -> None:
    cache = MetadataCache()

    def apply(command: Command) -> dict[TopicPartition, int]:
        assert isinstance(command, UpdateMetadata)
        cache.update(command)
        return {}

    handler = ControllerCommandHandler(lambda: BrokerEpoch(5), apply)
    handler.handle(Numbered(1, says(role(T0, TWO), epoch=4, controller=TWO)))
    answer = handler.handle(Numbered(2, says(role(T0, ONE), epoch=3)))
    assert answer.error == STALE_CONTROLLER_EPOCH
    assert (cache.controller, cache.leader(T0)) == (TWO, TWO)


def test_change_of_partition_keeps_the_others() -> None:
    cache = MetadataCache()
    cache.update(says(role(T0), role(T1)))
    cache.update(says(role(T1, TWO)))
    assert [cache.leader(where) for where in (T0, T1)] == [ONE, TWO]
    assert list(cache.topics["t"].partitions) == [0, 1]


def test_topic_is_removed_with_its_last_partition() -> None:
    cache = MetadataCache()
    cache.update(says(role(T0), role(T1)))
    cache.update(says(role(T0, DELETED)))
    assert list(cache.topics["t"].partitions) == [1]
    cache.update(says(role(T1, DELETED)))
    assert (cache.topics, cache.name_of(TopicId("first"))) == ({}, None)


def test_full_command_removes_missing_topics() -> None:
    cache = MetadataCache()
    cache.update(says(role(T0), role(T1), role(U0, ident="other")))
    cache.update(says(role(T0), full=True))
    assert set(cache.topics) == {"t"}
    assert list(cache.topics["t"].partitions) == [0]
    assert cache.name_of(TopicId("other")) is None


def test_recreated_topic_replaces_former_one() -> None:
    cache = MetadataCache()
    cache.update(says(role(T0), role(T1)))
    cache.update(says(role(T0, ident="second")))
    assert (cache.topic_id("t"), list(cache.topics["t"].partitions)) == (TopicId("second"), [0])
    assert cache.name_of(TopicId("first")) is None
