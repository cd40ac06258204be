"""Brokers in the test's own loop, on a store in the same process; clients that we did not write run in threads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import trio
from attrs import define, evolve, field

import zab
from bench.ports import free_port
from kraft_controller.core.commands import Role
from kraft_controller.core.names import BrokerId
from replica.core.groups.group_settings import GroupSettings
from replica.core.partitions.log_config import LogConfig
from replica.core.replica_settings import ReplicaSettings as ReplicationSettings
from replica.runtime.broker import Broker
from replica.runtime.configuration.broker_config import (
    PLAINTEXT,
    BrokerConfig,
    Listener,
    OffsetsTopicSettings,
    TransactionsTopicSettings,
)

T = TypeVar("T")
PATIENCE_S = 540.0


@define(eq=False)
class Cluster:
    path: Path
    store: zab.StoreServer
    nursery: trio.Nursery
    base: BrokerConfig
    more: tuple[Listener, ...] = ()
    """Listeners beside the plain one, of each broker."""
    brokers: dict[int, Broker] = field(factory=dict)
    ports: dict[int, int] = field(factory=dict)
    _scopes: dict[int, trio.CancelScope] = field(factory=dict)
    _ended: dict[int, trio.Event] = field(factory=dict)

    @property
    def hosts(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    async def start(self, number: int) -> Broker:
        """Also one that was stopped before: it finds its directory and its port again."""
        port = self.ports.setdefault(number, free_port())
        config = evolve(
            self.base,
            id=BrokerId(number),
            log_dirs=(self.path / f"broker{number}",),
            listeners=(Listener(PLAINTEXT, "127.0.0.1", port), *self.more),
        )
        broker = self.brokers[number] = Broker(config, self.store.session)
        await self.nursery.start(self._run, number, broker)
        return broker

    async def _run(
        self, number: int, broker: Broker, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        self._ended[number] = trio.Event()
        with trio.CancelScope() as scope:
            self._scopes[number] = scope
            await broker.run(task_status=task_status)
        self._ended[number].set()

    async def stop(self, number: int) -> None:
        self._scopes[number].cancel()
        await self._ended[number].wait()
        del self.brokers[number]

    def roles(self, topic: str) -> list[Role]:
        """Of its partitions, as some broker knows them."""
        broker = next(iter(self.brokers.values()))
        return list(broker.parts.metadata_cache.topics[topic].partitions.values())

    async def all_know_all(self) -> None:
        """Each broker has heard of each."""
        await until(
            lambda: all(
                broker.parts.metadata_cache.brokers.keys() == self.brokers.keys() for broker in self.brokers.values()
            )
        )

    async def all_in_sync(self) -> None:
        """Each replica on a running broker is in the ISR of its partition."""

        def is_in_sync(role: Role) -> bool:
            return set(role.state.isr) >= set(role.assignment.replicas) & self.brokers.keys()

        def are_in_sync() -> bool:
            topics = next(iter(self.brokers.values())).parts.metadata_cache.topics.values()
            return all(is_in_sync(role) for topic in topics for role in topic.partitions.values())

        await until(are_in_sync)


@asynccontextmanager
async def cluster(path: Path, brokers: int, more: tuple[Listener, ...] = (), **settings: Any) -> AsyncIterator[Cluster]:
    insync = 2 if brokers > 2 else 1
    base = BrokerConfig(
        BrokerId(0),
        (),
        partitions=1,
        replication_factor=min(brokers, 3),
        log=LogConfig(min_insync_replicas=insync),
        replication=ReplicationSettings(min_insync=insync),
        offsets=OffsetsTopicSettings(partitions=4, factor=min(brokers, 3)),
        transactions_topic=TransactionsTopicSettings(partitions=4, factor=min(brokers, 3)),
        groups=GroupSettings(group_initial_rebalance_delay_ms=0),
    )
    with trio.fail_after(PATIENCE_S):
        async with zab.open_store(path / "store", client_port=0) as store, trio.open_nursery() as nursery:
            made = Cluster(path, store, nursery, evolve(base, **settings), more)
            for number in range(1, brokers + 1):
                await made.start(number)
            await made.all_know_all()
            yield made
            nursery.cancel_scope.cancel()


async def until(true: Callable[[], object]) -> None:
    """Or the patience of the whole test is at its end."""
    while not true():
        await trio.sleep(0.01)


async def in_thread(function: Callable[..., T], *arguments: object) -> T:
    return await trio.to_thread.run_sync(function, *arguments, abandon_on_cancel=True)
