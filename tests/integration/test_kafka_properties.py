"""Whatever value Apache Kafka's own broker does not start with, ours does not start with either; and the other way
round, but for what is listed here.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest

from replica.cli.properties.keys import KEYS
from replica.cli.properties.plan import plan_of
from tests.integration.peers import kafka_java, needs_kafka
from zab.config.config_source import BadConfig

pytestmark = [pytest.mark.slow, needs_kafka]

SOURCE: Final = Path(__file__).with_name("java") / "KafkaProperties.java"
INT, LONG = 2**31, 2**63
TRIED: Final = ("-2", "-1", "0", "1", "23", "100", "101", "1023", "32768", "x", "true", "", "0.5",
                f"{INT - 1}", f"{INT}", f"{LONG - 1}", f"{LONG}")  # fmt: skip

READ_TOGETHER: Final = ("ssl.", "sasl.", "zookeeper.ssl.", "zookeeper.connect", "listener", "advertised.",
                        "inter.broker.l", "java.", "authorizer.", "super.", "log.dir", "security.")  # fmt: skip
"""Names of files, of listeners and of users: what they may be hangs on other keys."""
NOT_LOOKED_AT: Final = {
    "process.roles", "node.id", "controller.quorum.voters", "controller.listener.names",
    "zookeeper.metadata.migration.enable", "log.message.format.version", "inter.broker.protocol.version",
    "offsets.commit.required.acks", "group.coordinator.rebalance.protocols", "metrics.recording.level",
    "compression.gzip.level", "compression.lz4.level", "compression.zstd.level", "max.connections.per.ip.overrides",
    "metric.reporters", "kafka.metrics.reporters", "control.plane.listener.name", "remote.log.storage.system.enable",
}  # fmt: skip
"""They have no effect here, which is said, whatever they are: what is spoken or stored does not hang on them."""
WITH_ANOTHER: Final = {
    f"connection.failed.authentication.delay.ms={INT - 1}",
    "log.cleaner.threads=1023", "log.cleaner.threads=32768", f"log.cleaner.threads={INT - 1}",
}  # fmt: skip
"""Only against the default of another key without effect Kafka has something against them."""
LESS_IS_TAKEN: Final = {
    "zookeeper.session.timeout.ms": "-2 -1 0",
    "default.replication.factor": f"-2 -1 0 32768 {INT - 1}",
    "zookeeper.set.acl": "true",  # for everybody, as long as nobody says who this broker is at the store
    "allow.everyone.if.no.acl.found": "all",  # Kafka looks at it only where there is an authorizer
    "log.retention.ms": "-2",
    "log.retention.minutes": "-2",
    "log.retention.hours": "-2",
    "log.retention.bytes": "-2",
    "log.cleanup.policy": " ",
    "log.index.size.max.bytes": "23",
    "log.flush.interval.ms": "-2 -1",
    "offsets.topic.segment.bytes": "1 23 100 101 1023",
    "transaction.state.log.segment.bytes": "1 23 100 101 1023",
    "group.min.session.timeout.ms": f"-2 -1 0 {INT - 1}",
    "group.max.session.timeout.ms": "-2 -1 0 1 23 100 101 1023",
    "group.initial.rebalance.delay.ms": "-2 -1",
    "offset.metadata.max.bytes": "-2 -1",
    "socket.request.max.bytes": "1 23 100 101 1023",
    "max.connections": "0",
    "connections.max.idle.ms": "-2",
    "replica.fetch.wait.max.ms": "-2 -1",
    "replica.lag.max.messages": "all",  # Kafka has forgotten it
    "replica.selector.class": "all",  # Kafka looks for the class later
    "replica.high.watermark.checkpoint.interval.ms": "-2 -1 0",
    "replica.fetch.max.bytes": "0",
    "replica.fetch.response.max.bytes": "0",
    "leader.imbalance.per.broker.percentage": f"-2 -1 101 1023 32768 {INT - 1}",
    "controlled.shutdown.max.retries": "-2 -1",
    "controlled.shutdown.retry.backoff.ms": "-2 -1",
}
"""What makes no sense is a mistake here, where Kafka starts and does something else, or stands still."""


def refused_by_kafka(lines: list[str]) -> dict[str, str]:
    """What of this it says something against."""
    done = subprocess.run(
        [*kafka_java(), str(SOURCE)], input="\n".join(lines), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    answers = dict(line.split("\t", 1) for line in done.stdout.splitlines())
    assert answers.keys() == set(lines)
    return {line: why for line, why in answers.items() if why}


def is_refused(line: str) -> bool:
    try:
        plan_of("p", f"zookeeper.connect=h\n{line}")
    except BadConfig:
        return True
    return False


def is_known(line: str) -> bool:
    key, _, value = line.partition("=")
    odd = LESS_IS_TAKEN.get(key, "")
    return odd == "all" or value in odd.split(" ")


def test_the_same_values_end_the_start() -> None:
    keys = [key for key in KEYS if not key.startswith((*READ_TOGETHER, "zab.")) and key not in NOT_LOOKED_AT]
    lines = [f"{key}={value}" for key in keys for value in TRIED]
    theirs = refused_by_kafka(lines)
    ours = {line for line in lines if is_refused(line)}
    assert {line: why for line, why in theirs.items() if line not in ours | WITH_ANOTHER} == {}
    assert [line for line in lines if line in ours and line not in theirs and not is_known(line)] == []
    assert len(theirs) > len(keys), "most keys have values that are none"
