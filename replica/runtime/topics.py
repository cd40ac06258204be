"""Topics are made, grown and deleted by what is written to the store: the controller sees it there and does the rest.

So any broker can do it for a client, and what was begun is finished also when that broker dies a moment later. What is
checked and written is a matter of `kraft_controller.runtime.admin`, as for the commands of operators; here it is said
for clients, and waited for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

import trio
from attrs import frozen

import zab
from kraft_controller.core.names import BrokerId, TopicId, TopicPartition, metric_name
from kraft_controller.core.state import Topic
from kraft_controller.runtime.admin import topic_requests as admin
from replica.core.errors import ErrorCode, KafkaError
from replica.runtime.at_store import at_the_store
from replica.runtime.metadata import MetadataCache

T = TypeVar("T")
LINGERS_S: Final = 5.0

Manual = Mapping[int, Sequence[int]]
"""Replicas of each partition, as somebody wrote them down."""
Replicas = Mapping[int, tuple[BrokerId, ...]]


@frozen
class Defaults:
    """`num.partitions` and `default.replication.factor`."""

    partitions: int = 1
    factor: int = 1


@frozen
class Made:
    """`id` None: it was only checked."""

    id: TopicId | None
    replicas: Replicas


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
    ) -> Made:
        """-1: as many as is usual. When it returns the topic is in the store, and the controller will see it there."""
        said = configs or {}

        async def create(session: zab.Session) -> Made:
            await admin.check_name(session, name)
            if manual is None:
                count = self.defaults.partitions if partitions == -1 else partitions
                copies = self.defaults.factor if factor == -1 else factor
                replicas: Replicas = await admin.plan_topic(session, name, count, copies, self._below)
            else:
                replicas = {number: tuple(map(BrokerId, brokers)) for number, brokers in manual.items()}
            if check_only:
                await admin.check_topic(session, name, replicas, said)
                return Made(None, replicas)
            return Made(await admin.create_topic(session, name, replicas, said, self._random_bytes), replicas)

        return await self._at_the_store(create)

    def _below(self, count: int) -> int:
        return int.from_bytes(self._random_bytes(4), "big") % count

    async def make_if_missing(
        self, name: str, partitions: int = -1, factor: int = -1, configs: Mapping[str, str] | None = None
    ) -> None:
        """Because somebody asked for it. One at a time for each name; it is not waited for.

        Names that would be one in metrics count as one: together, neither would find the other.
        """
        alike = metric_name(name)
        if alike in self._making:
            return
        self._making.add(alike)
        try:
            await self.create(name, partitions, factor, configs)
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        finally:
            self._making.discard(alike)

    # -- growing, deleting, reading ----------------------------------------------------------------------------

    async def grow(
        self, name: str, count: int, manual: Sequence[Sequence[int]] | None, *, check_only: bool = False
    ) -> None:
        """To `count` partitions in all."""
        rows = None if manual is None else [tuple(map(BrokerId, row)) for row in manual]
        await self._at_the_store(lambda s: admin.add_partitions(s, name, count, rows, check_only=check_only))

    async def delete(self, name: str) -> None:
        if not self._deletion:
            raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")
        await self._at_the_store(lambda session: admin.delete_topic(session, name))

    async def read(self, name: str) -> Topic | None:
        """None: there is none."""
        return await self._at_the_store(lambda session: admin.read_topic(session, name, missing_is_fine=True))

    async def has(self, where: TopicPartition) -> bool:
        """Whether there is such a partition; yes where the store cannot be asked."""
        try:
            found = await self.read(where.topic)
        except KafkaError:
            return True
        return found is not None and where.partition in found.partitions

    # -- waiting for it ----------------------------------------------------------------------------------------

    async def led(self, name: str, partitions: int, timeout_ms: int) -> None:
        """Until this broker has heard of a leader for each partition. `REQUEST_TIMED_OUT` if that takes too long."""
        cache = self._cache

        def is_led() -> bool:
            return all(cache.leader(TopicPartition(name, number)) is not None for number in range(partitions))

        await self._until(is_led, timeout_ms, f"topic {name} was written to the store, and not all of it is led yet")

    async def gone(self, name: str, ident: TopicId | None, timeout_ms: int) -> None:
        """For clients of this broker. At the store, where none of its name can be made before that, it is waited for a
        little longer: the node goes when every broker has let go of its replicas, and one of them may be away."""
        began = trio.current_time()
        await self._unknown(name, ident, timeout_ms)
        left_s, pause_s = began + timeout_ms / 1000 - trio.current_time(), 0.02
        with trio.move_on_after(max(min(left_s, LINGERS_S), 0)):
            while await self._is_there_still(name, ident):
                await trio.sleep(pause_s)
                pause_s = min(2 * pause_s, 0.5)

    async def _is_there_still(self, name: str, ident: TopicId | None) -> bool:
        try:
            found = await self.read(name)
        except KafkaError as error:
            return error.code.retriable  # else it is half gone, and nobody can read it
        return found is not None and found.id == ident

    async def _unknown(self, name: str, ident: TopicId | None, timeout_ms: int) -> None:
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

    async def _at_the_store(self, act: Callable[[zab.Session], Awaitable[T]]) -> T:
        return await at_the_store(self._session(), act)
