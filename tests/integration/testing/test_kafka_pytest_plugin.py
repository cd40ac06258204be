"""The pytest plugin of `replica.testing`: its fixtures, and what it costs in tests that do not use it."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

from tests.project.test_docs import script_of

ROOT: Final = Path(__file__).parents[3]
PLUGIN: Final = "replica.testing.pytest_plugin"
PAGE: Final = "docs/howto/test-your-kafka-application.md"

pytest_plugins = ["pytester"]

TESTS: Final = """
    import threading
    import pytest
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient
    from replica.testing import MemoryCluster


    def topics(cluster: MemoryCluster) -> set[str]:
        found = AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(timeout=60).topics
        return {topic for topic in found if not topic.startswith("__")}


    @pytest.mark.parametrize("number", [1, 2])
    def test_fresh_cluster(kafka_cluster: MemoryCluster, number: int) -> None:
        assert topics(kafka_cluster) == set()
        kafka_cluster.create_topic("orders")
        producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers, "acks": "all"})
        producer.produce("orders", b"1")
        assert producer.flush(60) == 0
        kafka_cluster.kill(kafka_cluster.leader("orders"))
        assert kafka_cluster.leader("orders")


    @pytest.mark.parametrize("number", [1, 2])
    def test_shared_cluster(shared_kafka_cluster: MemoryCluster, kafka_cluster: MemoryCluster, number: int) -> None:
        shared_kafka_cluster.create_topic(f"topic{number}")
        assert topics(shared_kafka_cluster) == {f"topic{each}" for each in range(1, number + 1)}
        assert topics(kafka_cluster) == set()


    def test_all_else_has_ended() -> None:
        names = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
        assert names == ["Kafka cluster in memory"]     # the shared one
"""

OPTIONS: Final = """
    import pytest

    @pytest.fixture(scope="session")
    def kafka_cluster_options():
        return {"brokers": 1, "config": {"auto.create.topics.enable": False}}

    def test_one_broker(kafka_cluster, shared_kafka_cluster):
        assert kafka_cluster.bootstrap_servers.count(":") == 1
        assert shared_kafka_cluster.bootstrap_servers.count(":") == 1
"""


@pytest.fixture(autouse=True)
def only_named_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs of pytest in these tests load the plugins that they name, whatever is installed here."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)


def run(pytester: pytest.Pytester, test: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(test)
    return pytester.runpytest_subprocess("-W", "error", "-p", PLUGIN, *options)


def test_fixtures(pytester: pytest.Pytester) -> None:
    run(pytester, TESTS).assert_outcomes(passed=5)


def test_options_of_the_fixtures(pytester: pytest.Pytester) -> None:
    run(pytester, OPTIONS).assert_outcomes(passed=1)


def test_fixtures_are_documented(pytester: pytest.Pytester) -> None:
    run(pytester, OPTIONS, "--fixtures").stdout.fnmatch_lines(
        [
            "kafka_cluster -- *",
            "*Run a Kafka cluster of three brokers in memory for this test, *",
            "shared_kafka_cluster [[]session scope[]] -- *",
            "*Run a Kafka cluster of three brokers in memory for all tests *",
        ]
    )


def test_pytest_finds_the_plugin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"]["zab-broker"] == PLUGIN
    assert import_module(PLUGIN).kafka_cluster


def test_plugin_loads_no_more_than_its_names() -> None:
    script = (
        f"import pytest, sys, importlib; before = set(sys.modules); import {PLUGIN}; print(*set(sys.modules) - before)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) == {"replica", "replica.testing", PLUGIN}


def test_examples_of_the_docs_pass_under_pytest(pytester: pytest.Pytester) -> None:
    """`tests/project/test_docs.py` runs the page as a program, which only defines its tests."""
    run(pytester, script_of((ROOT / PAGE).read_text())).assert_outcomes(passed=4)
