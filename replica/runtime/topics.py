"""Topics are made, grown and deleted by what is written to the store: the controller sees it there and does the rest.

So any broker can do it for a client, and what was begun is finished also when that broker dies a moment later.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

import trio
from attrs import evolve, frozen

import zab
from kraft_controller.core.assignment import (
    AssignmentError,
    InvalidPartitions,
    InvalidReplicationFactor,
    Start,
    assign,
    check_manual,
    growth,
)
from kraft_controller.core.names import BrokerId, TopicId, TopicPartition, Version, collides, wrong_with_name
from kraft_controller.core.state import Assignment, Topic
from kraft_controller.wire import znodes
from replica.core.errors import ErrorCode, KafkaError
from replica.runtime.metadata import MetadataCache

T = TypeVar("T")

Manual = Mapping[int, Sequence[int]]
"""Replicas of each partition, as somebody wrote them down."""

STORE_S: Final = 10.0
"""Without a leader a store answers nothing, and whoever waits for it holds up a connection."""
TRIES_MAX: Final = 10
"""How often what somebody else was quicker with is looked at anew."""


@frozen
class Defaults:
    """`num.partitions` and `default.replication.factor`."""

    partitions: int = 1
    factor: int = 1


class Topics:
    """session       the one that lasts now; None while there is none
    random_bytes  for ids and for where a topic begins
    """

    def __init__(
        self,
        session: Callable[[], zab.Session | None],
        cache: MetadataCache,
        defaults: Defaults,
        random_bytes: Callable[[int], bytes],
        *,
        deletion: bool = True,
    ) -> None:
        self.defaults = defaults
        self._session = session
        self._cache = cache
        self._random_bytes = random_bytes
        self._deletion = deletion
        self._making: set[str] = set()

    # -- making ----------------------------------------------------------------------------------------------

    async def create(
        self,
        name: str,
        partitions: int = -1,
        factor: int = -1,
        configs: Mapping[str, str] | None = None,
        manual: Manual | None = None,
        *,
        check_only: bool = False,
    ) -> Topic:
        """-1: as many as is usual. When it returns the topic is in the store, and the controller will see it there."""
        return await self._at_the_store(
            lambda s: self._create(s, name, partitions, factor, configs, manual, check_only)
        )

    async def _create(
        self,
        session: zab.Session,
        name: str,
        partitions: int,
        factor: int,
        configs: Mapping[str, str] | None,
        manual: Manual | None,
        check_only: bool,
    ) -> Topic:
        why = wrong_with_name(name)
        if why is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)
        there = await session.children(znodes.TOPICS)
        if name in there:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name} is there already")
        alike = next((other for other in there if collides(name, other)), None)
        if alike is not None:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"{name} and {alike}, which is there, would be one in metrics, where '.' and '_' are the same",
            )
        replicas = self._placed(partitions, factor, manual)
        topic = Topic(
            name,
            znodes.new_topic_id(self._random_bytes),
            {number: Assignment(tuple(map(BrokerId, brokers))) for number, brokers in sorted(replicas.items())},
        )
        if check_only:
            return topic
        config = znodes.config_path("topics", name)
        values = znodes.config(configs or {})
        for _ in range(TRIES_MAX):
            multi = zab.Multi()
            stat = await session.exists(config)
            if stat is None:
                multi.create(config, values)
            else:
                multi.set(config, values, version=stat.version)
            multi.create(znodes.topic_path(name), znodes.topic(topic.id, topic.partitions))
            try:
                await session.multi(multi)
            except (zab.BadVersion, zab.NoNode, zab.NodeExists):
                if await session.exists(znodes.topic_path(name)) is not None:
                    raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name} is there already") from None
            else:
                return topic
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"topic {name}: its nodes change too quickly")

    def _placed(self, partitions: int, factor: int, manual: Manual | None) -> Manual:
        live = {ident: broker.rack for ident, broker in self._cache.brokers.items()}
        if manual is not None:
            check_manual(manual, sorted(live))
            return manual
        count = self.defaults.partitions if partitions == -1 else partitions
        copies = self.defaults.factor if factor == -1 else factor
        lot = int.from_bytes(self._random_bytes(4), "big")
        start = Start(lot % max(len(live), 1), lot // 7 % max(len(live), 1))
        return dict(enumerate(assign(live, count, copies, start)))

    async def make_if_missing(
        self, name: str, partitions: int = -1, factor: int = -1, configs: Mapping[str, str] | None = None
    ) -> None:
        """Because somebody asked for it. One at a time for each name; it is not waited for."""
        if name in self._making:
            return
        self._making.add(name)
        try:
            await self.create(name, partitions, factor, configs)
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        finally:
            self._making.discard(name)

    # -- growing ---------------------------------------------------------------------------------------------

    async def grow(
        self, name: str, count: int, manual: Sequence[Sequence[int]] | None, *, check_only: bool = False
    ) -> Topic:
        """To `count` partitions in all."""
        return await self._at_the_store(lambda session: self._grow(session, name, count, manual, check_only))

    async def _grow(
        self, session: zab.Session, name: str, count: int, manual: Sequence[Sequence[int]] | None, check_only: bool
    ) -> Topic:
        for _ in range(TRIES_MAX):
            topic = await self._read(session, name)
            grown = self._grown(topic, count, manual)
            if check_only:
                return grown
            try:
                node = znodes.topic(grown.id, grown.partitions)
                await session.set(znodes.topic_path(name), node, version=topic.version)
            except zab.BadVersion:
                continue
            return grown
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"topic {name}: its node changes too quickly")

    def _grown(self, topic: Topic, count: int, manual: Sequence[Sequence[int]] | None) -> Topic:
        before = len(topic.partitions)
        if count <= before:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS, f"topic {topic.name} has {before} partitions: {count} would not be more"
            )
        if any(held.moving for held in topic.partitions.values()):
            raise KafkaError(ErrorCode.REASSIGNMENT_IN_PROGRESS, f"replicas of topic {topic.name} are on the move")
        live = {ident: broker.rack for ident, broker in self._cache.brokers.items()}
        if manual is None:
            first = topic.partitions[0].replicas
            added: Manual = dict(
                enumerate(
                    assign(live, count - before, len(first), growth(sorted(live), first[0], before)), start=before
                )
            )
        else:
            if len(manual) != count - before:
                raise KafkaError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"{count - before} partitions are to be added, and replicas of {len(manual)} are named",
                )
            added = dict(enumerate(manual, start=before))
            check_manual(added, sorted(live), before)
        more = {number: Assignment(tuple(map(BrokerId, brokers))) for number, brokers in added.items()}
        return evolve(topic, partitions={**topic.partitions, **more})

    # -- deleting --------------------------------------------------------------------------------------------

    async def delete(self, name: str) -> None:
        if not self._deletion:
            raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")

        async def ask(session: zab.Session) -> None:
            if await session.exists(znodes.topic_path(name)) is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
            try:
                await session.create(f"{znodes.DELETE_TOPICS}/{name}", None)
            except zab.NodeExists:
                pass

        await self._at_the_store(ask)

    # -- waiting for it ----------------------------------------------------------------------------------------

    async def led(self, name: str, partitions: int, timeout_ms: int) -> None:
        """Until this broker has heard of a leader for each partition. `REQUEST_TIMED_OUT` if that takes too long."""
        cache = self._cache

        def is_led() -> bool:
            return all(cache.leader(TopicPartition(name, number)) is not None for number in range(partitions))

        await self._until(is_led, timeout_ms, f"topic {name} was written to the store, and not all of it is led yet")

    async def gone(self, name: str, ident: TopicId | None, timeout_ms: int) -> None:
        cache = self._cache

        def is_gone() -> bool:
            return name not in cache.topics or cache.topic_id(name) != ident

        await self._until(is_gone, timeout_ms, f"topic {name} is to be deleted, and is not yet")

    async def _until(self, true: Callable[[], bool], timeout_ms: int, why: str) -> None:
        with trio.move_on_after(max(timeout_ms, 0) / 1000):
            while not true():
                await self._cache.changed.wait()
            return
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, why)

    # -- the store -------------------------------------------------------------------------------------------

    async def read(self, name: str) -> Topic:
        return await self._at_the_store(lambda session: self._read(session, name))

    @staticmethod
    async def _read(session: zab.Session, name: str) -> Topic:
        try:
            data, stat = await session.get(znodes.topic_path(name))
        except zab.NoNode:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}") from None
        return znodes.read_topic(name, data, Version(stat.version))

    async def _at_the_store(self, act: Callable[[zab.Session], Awaitable[T]]) -> T:
        return await at_the_store(self._session(), act)


async def at_the_store(session: zab.Session | None, act: Callable[[zab.Session], Awaitable[T]]) -> T:
    """What can go wrong there, in the numbers that clients know."""
    if session is None:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "this broker has no session with the store now")
    try:
        with trio.fail_after(STORE_S):
            return await act(session)
    except trio.TooSlowError:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"the store has not answered for {STORE_S:g} s") from None
    except InvalidPartitions as error:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, str(error)) from error
    except InvalidReplicationFactor as error:
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, str(error)) from error
    except AssignmentError as error:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, str(error)) from error
    except znodes.DamagedNode as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
    except zab.OutcomeUnknown as error:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"whether the store has done it is not known: {error}") from error
    except zab.ZabError as error:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, f"the store did not do it: {error}") from error
