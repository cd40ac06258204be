"""Locations of clients and servers that PyPI does not have; `make peers` installs them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

PEERS = Path(__file__).resolve().parents[2] / ".peers"
KAFKA_JARS = Path(os.environ.get("ZAB_KAFKA_JARS") or PEERS / "kafka")
"""A folder with `kafka_2.13-3.9.1.jar` and all that it needs."""
NODE_MODULES = PEERS / "js" / "node_modules"
ZOOKEEPER_RELEASES = ("3.8.6", "3.7.2", "3.6.4", "3.5.10")
"""The releases of Apache ZooKeeper beside the one of `tests.integration.apache`: the last one of each line."""


def _why_not_kafka() -> str | None:
    if shutil.which("java") is None:
        return "Apache Kafka needs java, and there is none"
    if not list(KAFKA_JARS.glob("kafka_2.13-3.*.jar")):
        return (
            f"no jars of Apache Kafka 3 in {KAFKA_JARS}: `make peers` brings them; $ZAB_KAFKA_JARS names another folder"
        )
    return None


def _why_not_kafkajs() -> str | None:
    if shutil.which("node") is None:
        return "kafkajs needs node, and there is none"
    if not (NODE_MODULES / "kafkajs").is_dir():
        return "no kafkajs: `make peers` brings it"
    return None


def _why_not_kcat() -> str | None:
    return None if shutil.which("kcat") else "no kcat: apt install kcat"


def _why_not_zookeeper(release: str) -> str | None:
    if shutil.which("java") is None:
        return "Apache ZooKeeper needs java, and there is none"
    if not (zookeeper_jars(release) / f"zookeeper-{release}.jar").exists():
        return f"no Apache ZooKeeper {release}: `make peers` brings it"
    return None


def zookeeper_jars(release: str) -> Path:
    return PEERS / f"zookeeper-{release}"


def _needs(reason: str | None) -> pytest.MarkDecorator:
    return pytest.mark.skipif(reason is not None, reason=reason or "")


needs_kafka = _needs(_why_not_kafka())
needs_kafkajs = _needs(_why_not_kafkajs())
needs_kcat = _needs(_why_not_kcat())


def needs_zookeeper(release: str) -> pytest.MarkDecorator:
    return _needs(_why_not_zookeeper(release))


def kafka_java(*options: str) -> list[str]:
    """The beginning of a command that runs a class, or a file of source, with Apache Kafka's jars."""
    return ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *options, "-cp", f"{KAFKA_JARS}/*"]
