"""A memory cluster in a thread of its own, for plain tests, and the function that opens clusters."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

import trio
import trio.testing

import zab
from replica.testing.async_cluster import TIMEOUT_S, AsyncMemoryCluster, opened_cluster
from replica.testing.memory_brokers import ConfigValue, broker_config, check_keys
from zab.core.argument_names import checks_methods
from zab.testing.misuse import check_kind

P = ParamSpec("P")
T = TypeVar("T")

BROKERS: Final = 3
"""The number of brokers that a cluster has by default."""


@checks_methods
class MemoryCluster:
    """A running cluster of brokers in memory: `with open_memory_cluster() as cluster`, or the fixture `kafka_cluster`.

        with open_memory_cluster() as cluster:
            cluster.create_topic("orders", partitions=3)
            producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
            ...
            cluster.kill(cluster.leader("orders", 0), power_loss=True)

    Brokers have the numbers 1, 2 and so on. The cluster runs in a thread of its own, so clients may run in any thread
    or process of this machine, and these calls may come from any thread. They wait until the brokers have done what
    they say. A call raises `zab.LocalProtocolError` after the end of the block, for a broker that does not exist, or
    in a thread that runs Trio.
    """

    def __init__(self, cluster: AsyncMemoryCluster, token: trio.lowlevel.TrioToken) -> None:
        self._cluster = cluster
        self._token = token

    def __repr__(self) -> str:
        return repr(self._cluster).replace(AsyncMemoryCluster.__name__, type(self).__name__)

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, as Kafka's clients take them: "127.0.0.1:40001,127.0.0.1:40002".

        A broker keeps its address when it is restarted.
        """
        return self._cluster.bootstrap_servers

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        config: Mapping[str, ConfigValue] | None = None,
    ) -> None:
        """Create a topic. Return when every running broker knows a leader of each partition.

        name                the name of the topic
        partitions          the number of its partitions
        replication_factor  the number of replicas of each partition; None: 3, or all brokers if there are fewer
        config              settings of the topic, such as {"cleanup.policy": "compact"}

        Raise `replica.core.errors.KafkaError` if the topic exists, or if an argument is invalid.
        """
        self._call("create_topic", self._cluster.create_topic, name, partitions, replication_factor, config)

    def leader(self, topic: str, partition: int = 0, *, timeout_s: float = TIMEOUT_S) -> int:
        """Return the leader of a partition. Wait while there is none; raise `TimeoutError` after `timeout_s`.

        Raise `zab.LocalProtocolError` if the topic does not exist.
        """
        return self._call("leader", self._cluster.leader, topic, partition, timeout_s=timeout_s)

    def controller(self, *, timeout_s: float = TIMEOUT_S) -> int:
        """Return the id of the controller. Wait while there is none; raise `TimeoutError` after `timeout_s`."""
        return self._call("controller", self._cluster.controller, timeout_s=timeout_s)

    def wait_in_sync(self, topic: str | None = None, *, timeout_s: float = TIMEOUT_S) -> None:
        """Wait until all replicas of a topic, by default of all topics, are in sync with their leaders.

        Raise `TimeoutError` after `timeout_s`, which names a replica that is not in sync, and
        `zab.LocalProtocolError` if the topic does not exist.
        """
        self._call("wait_in_sync", self._cluster.wait_in_sync, topic, timeout_s=timeout_s)

    def kill(self, broker: int, *, power_loss: bool = False) -> None:
        """Kill a broker. Its disk keeps everything that was written; with `power_loss`, only what was synced.

        The store closes the broker's session at once, so other brokers take its leaderships over without a delay.
        Return when the controller has noticed the end of the broker, if a broker is left. Raise
        `zab.LocalProtocolError` if the broker is down.
        """
        self._call("kill", self._cluster.kill, broker, power_loss=power_loss)

    def restart(self, broker: int, *, timeout_s: float = TIMEOUT_S) -> None:
        """Start a broker that was killed; stop a running one in good order, and start it again.

        Return when the broker serves clients. `wait_in_sync` waits until its replicas have caught up. Raise
        `TimeoutError` after `timeout_s`, for example if a partition separates the broker from the controller.
        """
        self._call("restart", self._cluster.restart, broker, timeout_s=timeout_s)

    def partition(self, *brokers: int) -> None:
        """Cut these brokers off from the others, until `heal`. Earlier partitions stay.

        All brokers still reach the store, and clients reach all brokers. A follower that is cut off from its leader
        leaves the ISR after `replica.lag.time.max.ms`, which is 5 seconds here.
        """
        self._call_now("partition", self._cluster.partition, *brokers)

    def heal(self) -> None:
        """End all network partitions."""
        self._call_now("heal", self._cluster.heal)

    # -- calls from other threads ------------------------------------------------------------------

    def _call(self, what: str, call: Callable[P, Awaitable[T]], *args: P.args, **options: P.kwargs) -> T:
        """Run an async function in the thread of the cluster, and return its result."""
        self._check_thread(what)
        try:
            return trio.from_thread.run(partial(call, *args, **options), trio_token=self._token)
        except (trio.RunFinishedError, trio.Cancelled):
            raise _closed(what) from None

    def _call_now(self, what: str, call: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Run a function in the thread of the cluster, and return its result."""

        async def call_now() -> T:
            return call(*args, **options)

        return self._call(what, call_now)

    @staticmethod
    def _check_thread(what: str) -> None:
        if _runs_trio():
            raise zab.LocalProtocolError(
                f"MemoryCluster.{what} waits, and would stop the Trio loop of this thread: use `async with "
                "open_memory_cluster() as cluster`, whose calls are async, or call it in trio.to_thread.run_sync"
            )


def _closed(what: str) -> zab.LocalProtocolError:
    return zab.LocalProtocolError(
        f"MemoryCluster.{what}: the cluster is closed: use it inside the block of open_memory_cluster, or in a test "
        "that uses the fixture"
    )


def _runs_trio() -> bool:
    try:
        trio.lowlevel.current_trio_token()
    except RuntimeError:
        return False
    return True


class _ClusterThread:
    """The thread in which a cluster runs, with its own `trio.run`."""

    def __init__(self, brokers: int, config: Mapping[str, ConfigValue]) -> None:
        self._arguments = brokers, config
        self._settled = threading.Event()
        """Set when the cluster is open, or has failed."""
        self._stopping = False
        self._scope = trio.CancelScope()
        self._token: trio.lowlevel.TrioToken | None = None
        self._cluster: MemoryCluster | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="Kafka cluster in memory", daemon=True)

    def open(self) -> MemoryCluster:
        """Start the cluster. Return when it is open, or raise its error."""
        self._thread.start()
        try:
            self._settled.wait()
        except BaseException:  # such as KeyboardInterrupt
            self.close()
            raise
        if self._cluster is None:
            self.close()
        assert self._cluster is not None, "a cluster that does not open has an error"
        return self._cluster

    def close(self) -> None:
        """Stop the cluster, and wait until its thread has ended. If the cluster has failed, raise its error."""
        self._stopping = True
        if self._token is not None:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._scope.cancel)
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            trio.run(self._main)
        except BaseException as error:
            self._error = error
        finally:
            self._settled.set()

    async def _main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        if self._stopping:
            return
        with self._scope:
            async with opened_cluster(*self._arguments) as cluster:
                self._cluster = MemoryCluster(cluster, self._token)
                self._settled.set()
                await trio.sleep_forever()


class _OpeningCluster(AbstractContextManager[MemoryCluster], AbstractAsyncContextManager[AsyncMemoryCluster]):
    """What `open_memory_cluster` returns: it opens at `with` or `async with`, once, and explains other uses."""

    def __init__(self, brokers: int, config: Mapping[str, ConfigValue]) -> None:
        self._arguments = brokers, config
        self._begun = False
        self._thread: _ClusterThread
        self._block: AbstractAsyncContextManager[AsyncMemoryCluster]

    def __enter__(self) -> MemoryCluster:
        if _runs_trio():
            raise zab.LocalProtocolError("in a Trio program, open a memory cluster with `async with`, not with `with`")
        self._begin()
        self._thread = _ClusterThread(*self._arguments)
        return self._thread.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._thread.close()

    async def __aenter__(self) -> AsyncMemoryCluster:
        if not _runs_trio():
            raise zab.LocalProtocolError(
                "`async with open_memory_cluster()` needs Trio, which does not run here; elsewhere, also in asyncio, "
                "write `with open_memory_cluster() as cluster`, which runs the cluster in a thread of its own"
            )
        if isinstance(trio.lowlevel.current_clock(), trio.testing.MockClock):
            raise zab.LocalProtocolError(
                "a memory cluster needs real time, because its clients have real sockets: do not use a MockClock, such "
                "as the fixture autojump_clock of pytest-trio, in this test"
            )
        self._begin()
        self._block = opened_cluster(*self._arguments)
        return await self._block.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return await self._block.__aexit__(kind, error, traceback)

    def _begin(self) -> None:
        if self._begun:
            raise zab.LocalProtocolError(
                "this memory cluster was opened before: call open_memory_cluster again for a new one"
            )
        self._begun = True

    if not TYPE_CHECKING:  # a type checker finds these mistakes by itself

        def __getattr__(self, name: str) -> object:
            hint = f": write `with ... as cluster:`, then `cluster.{name}`" if hasattr(MemoryCluster, name) else ""
            raise AttributeError(f"this memory cluster is not open yet, and has no attribute {name!r}{hint}")


def open_memory_cluster(brokers: int = BROKERS, *, config: Mapping[str, ConfigValue] | None = None) -> _OpeningCluster:
    """Open a cluster of brokers in memory for as long as the block lasts.

        brokers  the number of its brokers
        config   settings of all brokers, as in server.properties, such as {"auto.create.topics.enable": False}

    `with open_memory_cluster() as cluster` runs the cluster in a thread of its own, and yields a `MemoryCluster`.
    `async with` runs it in the present loop of Trio, and yields an `AsyncMemoryCluster`, whose calls are async.

    The block begins when all brokers serve clients. The end of the block stops the cluster, without waiting for
    clients: close them before. If a broker fails, the block ends with the broker's error: with `async with` at once,
    with `with` at its end.

    Raise `zab.ConfigError` if a key or a value of `config` is invalid, or if a memory cluster determines it, such as
    `listeners` and `log.dirs`.
    """
    check_kind("brokers", brokers, int, "a whole number")
    if brokers < 1:
        raise zab.LocalProtocolError(f"brokers = {brokers}: a cluster has 1 or more")
    chosen = dict(config or {})
    check_keys(chosen)
    broker_config(1, brokers, 0, chosen)  # so that a mistake is reported by this call
    return _OpeningCluster(brokers, chosen)
