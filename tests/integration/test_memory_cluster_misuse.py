"""Each wrong use of a memory cluster is reported, with what to do instead."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import zab
from replica import testing
from replica.testing import AsyncMemoryCluster, MemoryCluster, open_memory_cluster

CALLS: dict[str, Callable[[Any], Any]] = {
    "create_topic": lambda cluster: cluster.create_topic("orders"),
    "leader": lambda cluster: cluster.leader("orders"),
    "controller": lambda cluster: cluster.controller(),
    "wait_in_sync": lambda cluster: cluster.wait_in_sync(),
    "kill": lambda cluster: cluster.kill(1),
    "restart": lambda cluster: cluster.restart(1),
    "partition": lambda cluster: cluster.partition(1),
    "heal": lambda cluster: cluster.heal(),
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[MemoryCluster]:
    with open_memory_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def closed() -> MemoryCluster:
    with open_memory_cluster(1) as cluster:
        pass
    return cluster


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_all_calls_are_tested() -> None:
    assert public(MemoryCluster) == public(AsyncMemoryCluster) == {*CALLS, "bootstrap_servers"}


@pytest.mark.parametrize("name", CALLS)
def test_closed_cluster_is_reported(closed: MemoryCluster, name: str) -> None:
    with pytest.raises(zab.LocalProtocolError, match=rf"MemoryCluster.{name}: the cluster is closed: use it inside"):
        CALLS[name](closed)


@pytest.mark.parametrize("name", CALLS)
def test_call_in_a_trio_loop_is_reported(cluster: MemoryCluster, name: str) -> None:
    async def main() -> None:
        CALLS[name](cluster)

    with pytest.raises(zab.LocalProtocolError, match=rf"MemoryCluster.{name} waits, .* use `async with open_memory"):
        trio.run(main)


@pytest.mark.parametrize("name", CALLS)
def test_async_call_from_elsewhere_is_reported(name: str) -> None:
    async def called(cluster: AsyncMemoryCluster) -> None:
        result = CALLS[name](cluster)
        if result is not None:
            await result

    def call_outside(cluster: AsyncMemoryCluster) -> None:
        with pytest.raises(zab.LocalProtocolError, match=rf"MemoryCluster.{name} needs Trio"):
            asyncio.run(called(cluster))
        with pytest.raises(zab.LocalProtocolError, match=rf"MemoryCluster.{name}: .* opened in another trio.run"):
            trio.run(called, cluster)

    async def main() -> None:
        async with open_memory_cluster(1) as cluster:
            await trio.to_thread.run_sync(call_outside, cluster)
        with pytest.raises(zab.LocalProtocolError, match=rf"MemoryCluster.{name}: the cluster is closed"):
            await called(cluster)

    trio.run(main)


def test_wrong_broker_is_reported(cluster: MemoryCluster) -> None:
    for call in (cluster.kill, cluster.restart, cluster.partition):
        with pytest.raises(zab.LocalProtocolError, match="there is no broker 4: this cluster has 1 to 3"):
            call(4)
    with pytest.raises(zab.LocalProtocolError, match="name some of the brokers 1, 2, 3, and not all"):
        cluster.partition(1, 2, 3)
    with pytest.raises(zab.LocalProtocolError, match="name some of the brokers 1, 2, 3, and not all"):
        cluster.partition()


def test_broker_that_is_down_is_reported() -> None:
    with open_memory_cluster(1) as cluster:
        cluster.kill(1)
        with pytest.raises(zab.LocalProtocolError, match=r"broker 1 is down already: restart\(1\) starts it"):
            cluster.kill(1)
        with pytest.raises(zab.LocalProtocolError, match="no broker runs that could create a topic: restart one first"):
            cluster.create_topic("orders")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda cluster: cluster.controller(timeout_s="x"), "timeout_s must be a number of seconds, not str"),
        (lambda cluster: cluster.restart(1, timeout_s=None), "timeout_s must be a number of seconds, not NoneType"),
        (lambda cluster: cluster.wait_in_sync(timeout_s=True), "timeout_s must be a number of seconds, not bool"),
        (lambda cluster: cluster.leader("orders", "0"), "partition must be a whole number, not str"),
        (lambda cluster: cluster.leader(3), "topic must be text, not int"),
        (lambda cluster: cluster.create_topic(3), "name must be text, not int"),
        (lambda cluster: cluster.create_topic("orders", "3"), "partitions must be a whole number, not str"),
        (
            lambda cluster: cluster.create_topic("orders", 1, 1.0),
            "replication_factor must be a whole number, not float",
        ),
    ],
)
def test_wrong_type_is_reported(cluster: MemoryCluster, call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(TypeError, match=f"^{message}$"):
        call(cluster)


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError("No module named 'google_crc32c'", name="google_crc32c")

    module: Any = testing
    monkeypatch.setattr(module, "import_module", missing)
    with pytest.raises(ModuleNotFoundError, match=r"needs google_crc32c, .*: pip install 'zab\[broker\]'"):
        module.__getattr__("open_memory_cluster")


def test_misspelt_argument_is_reported(cluster: MemoryCluster) -> None:
    wrong: Any = cluster
    with pytest.raises(TypeError, match="no argument 'power_los'; did you mean power_loss"):
        wrong.kill(1, power_los=True)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"min.insyc.replicas": 2},
            "'min.insyc.replicas' is not a key of server.properties; did you mean min.insync",
        ),
        ({"min.insync.replicas": "two"}, "min.insync.replicas=two: expected a whole number, 1 or more"),
        ({"listeners": "PLAINTEXT://:9092"}, "listeners cannot be set: the memory cluster determines it"),
        ({"log.dirs": "/tmp"}, "log.dirs cannot be set: the memory cluster determines it"),
    ],
)
def test_wrong_setting_is_reported(config: dict[str, Any], message: str) -> None:
    with pytest.raises(zab.ConfigError, match=f"^config: {message}"):
        open_memory_cluster(config=config)


def test_wrong_number_of_brokers_is_reported() -> None:
    wrong: Any = "3"
    with pytest.raises(TypeError, match="brokers must be a whole number, not str"):
        open_memory_cluster(wrong)
    with pytest.raises(zab.LocalProtocolError, match="brokers = 0: a cluster has 1 or more"):
        open_memory_cluster(0)


def test_with_in_a_trio_program_is_reported() -> None:
    async def main() -> None:
        with open_memory_cluster():
            raise AssertionError

    with pytest.raises(zab.LocalProtocolError, match="open a memory cluster with `async with`"):
        trio.run(main)


def test_async_with_in_asyncio_is_reported() -> None:
    async def main() -> None:
        async with open_memory_cluster():
            raise AssertionError

    with pytest.raises(zab.LocalProtocolError, match="write `with open_memory_cluster"):
        asyncio.run(main())


def test_virtual_clock_is_reported() -> None:
    async def main() -> None:
        async with open_memory_cluster():
            raise AssertionError

    with pytest.raises(zab.LocalProtocolError, match="do not use a MockClock, such as the fixture autojump_clock"):
        trio.run(main, clock=MockClock(autojump_threshold=0))


def test_second_opening_is_reported() -> None:
    opening = open_memory_cluster(1)
    with opening:
        pass
    with pytest.raises(zab.LocalProtocolError, match="call open_memory_cluster again"), opening:
        raise AssertionError


def test_use_before_the_block_is_reported() -> None:
    opening: Any = open_memory_cluster()
    with pytest.raises(AttributeError, match=r"not open yet.*write `with ... as cluster:`, then `cluster.kill`"):
        opening.kill(1)
    with pytest.raises(AttributeError, match="no attribute 'kil'$"):
        opening.kil(1)


def test_failure_of_a_broker_is_raised_at_the_end_of_the_block() -> None:
    class Failure(Exception):
        pass

    before = threading.active_count()

    async def fail() -> None:
        raise Failure

    with pytest.raises(Failure), open_memory_cluster() as cluster:
        cluster._token.run_sync_soon(cluster._cluster._nursery.start_soon, fail)
        with pytest.raises(zab.LocalProtocolError, match="the cluster is closed"):
            cluster.leader("orders")
        with pytest.raises(zab.LocalProtocolError, match="the cluster is closed"):
            cluster.controller()
    assert threading.active_count() == before


def test_failure_at_the_start_is_raised() -> None:
    with pytest.raises(Exception, match="INVALID_REPLICATION_FACTOR"):  # noqa: SIM117
        with open_memory_cluster(1, config={"offsets.topic.replication.factor": 3}):
            raise AssertionError


def test_error_of_the_block_is_raised_unchanged() -> None:
    with pytest.raises(ZeroDivisionError), open_memory_cluster(1):
        _ = 1 / 0


def test_names_of_the_package() -> None:
    assert set(testing.__all__) <= set(dir(testing))
    wrong: Any = testing
    with pytest.raises(AttributeError, match="no attribute 'open_cluster'"):
        _ = wrong.open_cluster
