"""A cluster of brokers in memory, for the tests of applications that use Kafka.

    from confluent_kafka import Producer
    from replica.testing import open_memory_cluster

    with open_memory_cluster() as cluster:
        cluster.create_topic("orders", partitions=3)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        ...                                             # run the application with these servers
        cluster.kill(cluster.leader("orders", 0))       # and with this fault

The brokers and their store are the real ones, and clients reach the brokers over sockets on 127.0.0.1. Only the disks,
the network between the brokers and the store's network are in memory: nothing is written to the disk of the machine.

pytest finds the fixture `kafka_cluster` by itself: see `replica.testing.pytest_plugin`. Names are loaded when they are
first used, so the plugin costs nothing in tests that do not use it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replica.testing.async_cluster import AsyncMemoryCluster
    from replica.testing.memory_cluster import MemoryCluster, open_memory_cluster

__all__ = ["open_memory_cluster", "MemoryCluster", "AsyncMemoryCluster"]


if not TYPE_CHECKING:  # without this condition a type checker would accept every misspelled name

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module 'replica.testing' has no attribute {name!r}")
        try:
            value: object = getattr(import_module("replica.testing.memory_cluster"), name)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] in ("kraft_controller", "replica", "zab"):
                raise
            raise ModuleNotFoundError(
                f"replica.testing needs {error.name}, which is not installed: pip install 'zab[broker]'",
                name=error.name,
            ) from None
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
