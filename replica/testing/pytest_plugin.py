"""The pytest fixtures `kafka_cluster` and `shared_kafka_cluster`: clusters in memory, for the tests of applications.

    def test_application(kafka_cluster):
        kafka_cluster.create_topic("orders")
        application(kafka_cluster.bootstrap_servers)

pytest finds the plugin by itself if zab is installed. It loads the brokers only in tests that use a fixture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from replica.testing.memory_cluster import MemoryCluster


@pytest.fixture(scope="session")
def kafka_cluster_options() -> dict[str, Any]:
    """Arguments of `replica.testing.open_memory_cluster` for the other fixtures. Tests may override this fixture."""
    return {}


@pytest.fixture
def kafka_cluster(kafka_cluster_options: dict[str, Any]) -> Iterator[MemoryCluster]:
    """Run a Kafka cluster of three brokers in memory for this test, a `replica.testing.MemoryCluster`."""
    from replica.testing import open_memory_cluster

    with open_memory_cluster(**kafka_cluster_options) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def shared_kafka_cluster(kafka_cluster_options: dict[str, Any]) -> Iterator[MemoryCluster]:
    """Run a Kafka cluster of three brokers in memory for all tests that use this fixture: they share its topics."""
    from replica.testing import open_memory_cluster

    with open_memory_cluster(**kafka_cluster_options) as cluster:
        yield cluster
