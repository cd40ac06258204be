"""`server.properties`: what a broker is told, and what is said of keys that count for nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica.cli.properties.keys import KEYS
from replica.cli.properties.page import PAGE, page
from replica.cli.properties.plan import Misconfigured, Plan, plan_of
from replica.cli.properties.syntax import Entry, parse

KAFKAS_OWN = """\
# as it comes with Kafka
broker.id=0
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kafka-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.retention.check.interval.ms=300000
zookeeper.connect=localhost:2181
zookeeper.connection.timeout.ms=18000
group.initial.rebalance.delay.ms=0
default.replication.factor=1
"""


def plan(*lines: str, store: str = "zookeeper.connect=h:2181") -> Plan:
    return plan_of("server.properties", "\n".join([store, "default.replication.factor=1", *lines]))


def test_kafkas_own_file_is_understood_without_a_warning() -> None:
    made = plan_of("server.properties", KAFKAS_OWN)
    assert made.warnings == ()
    config = made.config
    assert (config.id, config.store, config.log_dirs) == (0, "localhost:2181", (Path("/tmp/kafka-logs"),))
    assert [(each.name, each.host, each.port) for each in config.listeners] == [("PLAINTEXT", None, 9092)]
    assert config.groups.group_initial_rebalance_delay_ms == 0
    assert config.offsets.factor == 1
    assert config.log.retention_ms == 7 * 24 * 3_600_000


def test_the_syntax_is_that_of_javas_properties() -> None:
    text = "a=1\n ! no\nb : x y \nc\\=d=e\\\n   f\n#g=1\nlonely\n"
    assert parse(text) == [Entry("a", "1", 1), Entry("b", "x y", 3), Entry("c=d", "ef", 4), Entry("lonely", "", 7)]


def test_what_counts_for_nothing_is_named() -> None:
    made = plan("num.io.threads=16", "metric.reporters=x", "auto.create.topics.enable=false", "num.partitions=2")
    assert made.warnings == (
        "line 3: num.io.threads has no effect: one event loop does it; there are no such threads",
        "line 4: metric.reporters is not known here and has no effect",
    )
    assert made.config.auto_create is False
    assert made.config.partitions == 2


def test_what_is_said_twice_counts_as_it_is_said_last() -> None:
    made = plan("num.partitions=2", "num.partitions=3")
    assert made.config.partitions == 3
    assert made.warnings == ("line 4: num.partitions is said twice; this one counts",)


def test_one_replica_is_warned_of_when_nobody_asked_for_it() -> None:
    made = plan_of("p", "zookeeper.connect=h")
    assert made.warnings == ("default.replication.factor is 1: what is written to a topic is lost with its broker",)


def test_listeners_and_what_clients_are_told() -> None:
    made = plan(
        "listeners=IN://10.0.0.1:9092,OUT://:9093,CONTROLLER://10.0.0.1:9090",
        "advertised.listeners=IN://10.0.0.1:9092,OUT://kafka.example:443",
        "listener.security.protocol.map=IN:PLAINTEXT,OUT:PLAINTEXT",
        "inter.broker.listener.name=IN",
    ).config
    inside, outside = made.listeners
    assert (inside.name, inside.host, inside.port, inside.told_host) == ("IN", "10.0.0.1", 9092, "10.0.0.1")
    assert (outside.host, outside.port, outside.told_host, outside.told_port) == (None, 9093, "kafka.example", 443)
    assert (made.controller.host, made.controller.port) == ("10.0.0.1", 9090)
    assert made.inter_broker == "IN"


def test_controllers_come_in_beside_the_first_listener_when_nothing_is_said() -> None:
    made = plan("listeners=PLAINTEXT://h1:9092").config
    assert (made.controller.host, made.controller.port) == ("h1", 0)


def test_the_finest_unit_counts() -> None:
    made = plan("log.retention.hours=1", "log.retention.minutes=2", "log.roll.hours=3").config
    assert made.log.retention_ms == 120_000
    assert made.log.segment_ms == 3 * 3_600_000
    assert {"retention.ms", "segment.ms"} <= made.log_said


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("num.partitions=x", "line 3: num.partitions=x"),
        ("num.partitions=0", "it must be 1 or more"),
        ("auto.create.topics.enable=yes", "it is true or false"),
        ("broker.id=one", "it is a whole number"),
        ("log.dirs=,", "it names no directory"),
        ("log.cleanup.policy=forget", "cleanup.policy=forget"),
        ("log.retention.hours=soon", "it is a whole number"),
        ("listeners=PLAINTEXT//:9092", "it is NAME://host:port"),
        ("listeners=A://:1,A://:2", "listener A stands there twice"),
        ("listeners=A://:1", "it has no such protocol"),
        ("listeners=SSL://:1", "the file with its certificate and key"),
        ("ssl.keystore.location=/x\nlisteners=SSL://:1", "/x: No such file"),
        ("ssl.keystore.location=/x\nssl.keystore.type=PEM\nlisteners=SSL://:1", "ssl.keystore.location=/x"),
        ("listeners=SASL_PLAINTEXT://:1", "it names nobody"),
        ("advertised.listeners=PLAINTEXT://0.0.0.0:9092", "nobody can dial PLAINTEXT://0.0.0.0"),
        ("advertised.listeners=OUT://h:1", "OUT is none of the listeners PLAINTEXT"),
        ("listener.security.protocol.map=A=B", "it is NAME:PLAINTEXT"),
        ("inter.broker.listener.name=IN", "there are PLAINTEXT"),
        ("security.inter.broker.protocol=SSL", "no listener speaks it"),
    ],
)
def test_mistakes_are_named_with_their_line(line: str, why: str) -> None:
    with pytest.raises(Misconfigured, match=why):
        plan(line)


def test_users_of_a_listener_and_brokers_that_are_not_asked_who_they_are() -> None:
    made = plan(
        "listeners=IN://:1,OUT://:2",
        "listener.security.protocol.map=IN:PLAINTEXT,OUT:SASL_PLAINTEXT",
        'listener.name.out.plain.sasl.jaas.config=x.PlainLoginModule required user_alice="a b" user_bob="c";',
    )
    assert made.warnings == ()
    plain, asked = (each.sasl for each in made.config.listeners)
    assert plain is None
    assert asked is not None
    assert asked.users == {"alice": "a b", "bob": "c"}
    assert made.config.inter_broker == "IN"
    with pytest.raises(Misconfigured, match="brokers fetch from each other in plain text, and OUT speaks"):
        plan(
            "listeners=OUT://:2",
            "listener.security.protocol.map=OUT:SASL_PLAINTEXT",
            'listener.name.out.plain.sasl.jaas.config=x.PlainLoginModule required user_alice="a";',
        )


def test_without_a_store_there_is_no_broker() -> None:
    with pytest.raises(Misconfigured, match="zookeeper.connect: it is missing"):
        plan_of("server.properties", "broker.id=1")


def test_secrets_are_not_told() -> None:
    said = plan("ssl.key.password=x", "num.partitions=2").config.said
    assert said["ssl.key.password"] == (None, True)
    assert said["num.partitions"] == ("2", True)
    assert said["default.replication.factor"] == ("1", True)
    assert said["log.segment.bytes"] == ("1073741824", False)


def test_no_key_stands_in_the_table_twice() -> None:
    from replica.cli.properties.keys import SECTIONS

    names = [key.name for _, keys in SECTIONS for key in keys]
    assert len(names) == len(set(names)) == len(KEYS)


def test_the_reference_page_is_current() -> None:
    """To write it anew: python -m replica.cli.properties.page"""
    assert (Path(__file__).resolve().parents[3] / PAGE).read_text() == page()
