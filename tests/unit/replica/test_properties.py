"""`server.properties`: what a broker is told, and what is said of keys that count for nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from replica.cli.properties.keys import KEYS
from replica.cli.properties.plan import Plan, plan_of, read_plan
from replica.cli.properties.values import topic_setting
from replica.core.security.acl_authorization import AclSettings
from replica.runtime.authentication.sasl_client import Identity
from replica.runtime.configuration.broker_config import Peers
from replica.runtime.configuration.config_layers import Layers, of_broker, of_topic, started_with
from zab.config.config_source import BadConfig
from zab.config.values import LONG_MAX

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


def test_keys_without_effect_are_named() -> None:
    why = "without effect: this broker has no such thread pool"
    made = plan("num.io.threads=16", "my.own.key=x", "auto.create.topics.enable=false", "num.partitions=2")
    assert made.warnings == (
        f"server.properties:3: num.io.threads=16: {why}",
        "server.properties:4: my.own.key=...: this key is unknown and has no effect",
    )
    assert made.config.auto_create is False
    assert made.config.partitions == 2


def test_preallocation_of_segments_is_named_as_without_effect() -> None:
    assert plan("log.preallocate=false").warnings == ()
    [warning] = plan("log.preallocate=true").warnings
    assert warning.endswith("log.preallocate=true: without effect: segment files grow as records are appended")
    with pytest.raises(BadConfig, match="log.preallocate=maybe"):
        plan("log.preallocate=maybe")


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("num.partition", "num.partitions"),
        ("Broker.Id", "broker.id"),
        ("log.retension.hours", "log.retention.hours"),
        ("zookeeper.conect", "zookeeper.connect"),
        ("min.insync.replica", "min.insync.replicas"),
        ("advertised.listener", "advertised.listeners"),
    ],
)
def test_unknown_key_suggests_the_nearest_known_one(wrong: str, right: str) -> None:
    [warning] = plan(f"{wrong}=1").warnings
    assert warning.endswith(f"has no effect; did you mean {right}?")


def test_last_value_of_a_repeated_key_counts() -> None:
    made = plan("num.partitions=2", "num.partitions=3")
    assert made.config.partitions == 3
    assert made.warnings == (
        "server.properties:4: num.partitions=3: also at server.properties:3, as '2'; the last one counts",
    )


def test_command_line_overrides_the_file() -> None:
    made = plan_of(
        "p", "zookeeper.connect=h\nnum.partitions=2", {"num.partitions": "4", "default.replication.factor": "1"}
    )
    assert (made.config.partitions, made.warnings) == (4, ())
    with pytest.raises(BadConfig, match="^--override: num.partitions=0: expected a whole number, 1 or more$"):
        plan_of("p", "zookeeper.connect=h\nnum.partitions=2", {"num.partitions": "0"})


def test_default_of_one_replica_is_warned_of() -> None:
    made = plan_of("p", "zookeeper.connect=h")
    assert made.warnings == (
        "default.replication.factor is 1: by default a partition is on one broker, and its records are lost with it",
    )


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["min.insync.replicas=2"], "which is 1: a topic with fewer replicas requires all of them for acks=all"),
        (["min.insync.replicas=2", "default.replication.factor=2"], "rejected while any replica is out of sync"),
        (["log.segment.bytes=100000"], "less than message.max.bytes, which is 1048588: a batch larger than a segment"),
        (
            ["socket.request.max.bytes=100000"],
            "less than message.max.bytes, which is 1048588: a request with a batch of that size",
        ),
    ],
)
def test_unwise_values_are_warned_of(lines: list[str], why: str) -> None:
    made = plan_of("p", "\n".join(["zookeeper.connect=h", "default.replication.factor=1", *lines]))
    assert any(why in warning for warning in made.warnings), made.warnings


def test_listeners_and_advertised_addresses() -> None:
    made = plan(
        "listeners=IN://10.0.0.1:9092,OUT://:9093,CONTROLLER://10.0.0.1:9090",
        "advertised.listeners=IN://10.0.0.1:9092,OUT://kafka.example:443",
        "listener.security.protocol.map=IN:PLAINTEXT,OUT:PLAINTEXT",
        "inter.broker.listener.name=IN",
    ).config
    inside, outside = made.listeners
    assert (inside.name, inside.host, inside.port, inside.advertised_host) == ("IN", "10.0.0.1", 9092, "10.0.0.1")
    assert (outside.host, outside.port, outside.advertised_host, outside.advertised_port) == (
        None,
        9093,
        "kafka.example",
        443,
    )
    assert (made.controller.host, made.controller.port) == ("10.0.0.1", 9090)
    assert made.inter_broker == "IN"


def test_controllers_come_in_beside_the_first_listener_when_nothing_is_said() -> None:
    made = plan("listeners=PLAINTEXT://h1:9092").config
    assert (made.controller.host, made.controller.port) == ("h1", 0)


def test_the_finest_unit_counts() -> None:
    made = plan("log.retention.hours=1", "log.retention.minutes=2", "log.roll.hours=3").config
    assert made.log.retention_ms == 120_000
    assert made.log.segment_ms == 3 * 3_600_000
    assert {"retention.ms", "segment.ms"} <= made.log_keys_in_file


MISTAKES = """\
num.partitions=x                                    expected a whole number, 1 or more
num.partitions=0                                    expected a whole number, 1 or more
num.partitions=1_0                                  expected a whole number, 1 or more
num.partitions=99999999999                          expected a whole number from 1 to 2147483647
default.replication.factor=0                        expected a whole number from 1 to 32767
default.replication.factor=40000                    expected a whole number from 1 to 32767
auto.create.topics.enable=yes                       expected true or false
auto.leader.rebalance.enable=1                      expected true or false
controlled.shutdown.enable=on                       expected true or false
controlled.shutdown.max.retries=-1                  expected a whole number, 0 or more
delete.topic.enable=                                expected true or false
broker.id=one                                       expected a whole number, -1 or more
broker.id=-2                                        expected a whole number, -1 or more
broker.id=1001                                      the store assigns numbers above 1000: use one
broker.id.generation.enable=perhaps                 expected true or false
reserved.broker.max.id=-5                           expected a whole number, 0 or more
log.dirs=,                                          expected a directory
log.dirs=/data/a,/data/b,/data/a                    /data/a is listed twice
log.dirs=/data/a,/data/../data/a                    /data/../data/a, which is /data/a, is listed twice
log.dirs=/dev/null                                  /dev/null is not a directory
log.cleanup.policy=forget                           expected one of delete, compact
log.cleanup.policy=compact,                         expected one of delete, compact
log.cleanup.policy=delete,forget                    expected one of delete, compact
compression.type=rar                                expected one of
message.max.bytes=-1                                expected a whole number, 0 or more
min.insync.replicas=0                               expected a whole number, 1 or more
unclean.leader.election.enable=maybe                expected true or false
log.segment.bytes=13                                expected a whole number, 14 or more
log.segment.bytes=9999999999                        expected a whole number from 14 to 2147483647
min.insync.replicas=9999999999999                   expected a whole number from 1 to 2147483647
log.retention.bytes=99999999999999999999            expected a whole number from -1 to 9223372036854775807
log.roll.jitter.ms=99999999999999999999             expected a whole number from 0 to 9223372036854775807
log.index.size.max.bytes=3                          expected a whole number, 24 or more
log.retention.hours=soon                            expected a whole number, 1 or more, or -1
log.retention.hours=-2                              expected a whole number, 1 or more, or -1
log.retention.minutes=0                             expected a whole number, 1 or more, or -1
log.retention.minutes=9999999999                    expected a whole number from 1 to 2147483647, or -1
log.retention.ms=-100                               expected a whole number, 1 or more, or -1
log.retention.bytes=-2                              expected a whole number, -1 or more
log.roll.hours=0                                    expected a whole number, 1 or more
log.roll.ms=-1                                      expected a whole number, 1 or more
log.cleaner.min.cleanable.ratio=2                   expected a number from 0 to 1
log.cleaner.min.cleanable.ratio=nan                 expected a number from 0 to 1
log.flush.interval.messages=0                       expected a whole number, 1 or more
log.message.timestamp.type=Now                      expected one of CreateTime, LogAppendTime
log.retention.check.interval.ms=0                   expected a whole number, 1 or more
log.cleaner.backoff.ms=-1                           expected a whole number, 0 or more
offsets.topic.num.partitions=0                      expected a whole number, 1 or more
offsets.topic.replication.factor=0                  expected a whole number from 1 to 32767
offsets.topic.replication.factor=-1                 expected a whole number from 1 to 32767
offsets.topic.segment.bytes=1                       expected a whole number, 1024 or more
offsets.retention.minutes=0                         expected a whole number, 1 or more
group.min.session.timeout.ms=0                      expected a whole number, 1 or more
group.min.session.timeout.ms=1800001                more than group.max.session.timeout.ms=1800000, which is the default
group.max.session.timeout.ms=5999                   less than group.min.session.timeout.ms=6000, which is the
group.max.size=0                                    expected a whole number, 1 or more
offset.metadata.max.bytes=-1                        expected a whole number, 0 or more
socket.request.max.bytes=100                        expected a whole number, 4096 or more
queued.max.request.bytes=x                          expected a whole number; 0 or less: the default
queued.max.request.bytes=1000                       less than socket.request.max.bytes=104857600
max.connections=0                                   expected a whole number, 1 or more
connections.max.idle.ms=100                         expected a whole number, 101 or more, or -1
max.connections.per.ip=0                            expected a whole number, 1 or more
num.io.threads=0                                    expected a whole number, 1 or more
socket.send.buffer.bytes=2147483648                 expected a whole number from -2147483648 to 2147483647
log.cleaner.io.buffer.load.factor=much              expected a number
connections.max.reauth.ms=never                     expected a whole number
replica.selector.class=my.Selector                  expected org.apache.kafka.common.replica.LeaderSelector or
replica.socket.timeout.ms=499                       less than replica.fetch.wait.max.ms=500
principal.builder.class=my.Builder                  expected one of org.apache.kafka.common.security
replica.lag.time.max.ms=0                           expected a whole number, 1 or more
replica.lag.time.max.ms=100                         less than replica.fetch.wait.max.ms=500
fetch.max.bytes=100                                 expected a whole number, 1024 or more
leader.imbalance.check.interval.seconds=0.5         expected a whole number, 1 or more
leader.imbalance.per.broker.percentage=101          expected a whole number from 0 to 100
zookeeper.session.timeout.ms=0                      expected a whole number, 1 or more
listeners=PLAINTEXT//:9092                          'PLAINTEXT//:9092': expected NAME://host:port
listeners=PLAINTEXT://h:99999                       expected NAME://host:port, with a port from 0 to 65535
listeners=PLAINTEXT://a:b:9092                      expected NAME://host:port
listeners=                                          expected NAME://host:port, or several
listeners=CONTROLLER://h:1                          no listener for clients
listeners=PLAINTEXT://:1,plaintext://:2             listener PLAINTEXT is listed twice
listeners=A://:1                                    A:PROTOCOL to listener.security.protocol.map: one of PLAINTEXT, SSL
listeners=PLAINTEXT://h:1,CONTROLLER://h:1          PLAINTEXT and CONTROLLER both use port 1
listeners=PLAINTEXT://:1,CONTROLLER://h:1           PLAINTEXT and CONTROLLER both use port 1
advertised.listeners=PLAINTEXT://0.0.0.0:9092       PLAINTEXT://0.0.0.0:9092 is not an address to connect to
advertised.listeners=PLAINTEXT://h:0                port 0 is not a port to connect to
advertised.listeners=OUT://h:1                      no such listener: OUT; expected PLAINTEXT
listener.security.protocol.map=A=B                  'A=B': expected NAME:PROTOCOL
listener.security.protocol.map=A:SSL,A:PLAINTEXT    A is listed twice, as SSL and as PLAINTEXT
inter.broker.listener.name=IN                       expected PLAINTEXT with protocol PLAINTEXT
security.inter.broker.protocol=SSL                  expected PLAINTEXT with protocol PLAINTEXT
security.inter.broker.protocol=TLS                  expected one of PLAINTEXT, SSL
zookeeper.connect=a:b:c                             'a:b:c' is not an address
zookeeper.connect=h:0                               'h:0' is not HOST or HOST:PORT
zookeeper.connect=h:2181/a//b                       '/a//b' is not a valid root
"""


def problems_of(line: str) -> tuple[str, ...]:
    """Of a file in which one key is right and this one is tried."""
    right = "log.dir=/data" if line.startswith("zookeeper.connect=") else "zookeeper.connect=h"
    try:
        plan_of("p", f"{right}\n{line}")
    except BadConfig as error:
        return error.problems
    return ()


def _mistake(row: str) -> tuple[str, str]:
    said, why = row[:52].strip(), row[52:].strip()
    return said, why


@pytest.mark.parametrize(("said", "why"), [_mistake(row) for row in MISTAKES.splitlines()])
def test_mistake_is_named_once_with_line_and_remedy(said: str, why: str) -> None:
    with pytest.raises(BadConfig) as caught:
        plan(said)
    [problem] = caught.value.problems
    assert problem.startswith(f"server.properties:3: {said}: ")
    assert why in problem
    assert problem.count(said.partition("=")[0] + "=") == 1
    assert "invalid literal" not in problem


JAAS = "listener.name.sasl_plaintext.plain.sasl.jaas.config"


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["listeners=SSL://:1"], "ssl.keystore.location: a listener uses TLS: set the file"),
        (["listeners=SSL://:1", "ssl.keystore.location=/x"], "/x: No such file"),
        (
            ["listeners=SSL://:1", "ssl.keystore.location=/x", "ssl.keystore.type=PEM"],
            "ssl.keystore.location=/x",
        ),
        (["listeners=SASL_PLAINTEXT://:1"], "no user: expected"),
        (["listeners=SASL_PLAINTEXT://:1", f'{JAAS}=x.Y required user_ann="";'], "user_ann lacks a password"),
        (["listeners=SASL_PLAINTEXT://:1", f'{JAAS}=x.Y required user_="secret";'], "user_ lacks a name"),
        (
            ["inter.broker.listener.name=PLAINTEXT", "security.inter.broker.protocol=PLAINTEXT"],
            "sets the same; remove one",
        ),
        (["listeners=SSL://:1,PLAINTEXT://:2", "advertised.listeners=SSL://h:7,PLAINTEXT://h:7"], "are both at h:7"),
        (["broker.id.generation.enable=false"], "broker.id: required, since broker.id.generation.enable=false"),
        (["log.cleaner.min.compaction.lag.ms=10", "log.cleaner.max.compaction.lag.ms=5"], "must not be above"),
    ],
)  # fmt: skip
def test_keys_that_do_not_go_together(lines: list[str], why: str) -> None:
    with pytest.raises(BadConfig) as caught:
        plan(*lines)
    assert any(why in problem for problem in caught.value.problems), caught.value.problems


def test_all_mistakes_are_reported_together() -> None:
    wrong = [
        row for row in (_mistake(row)[0] for row in MISTAKES.splitlines()) if not row.startswith("zookeeper.connect")
    ]
    keys = dict.fromkeys(row.partition("=")[0] for row in wrong)
    firsts = [next(row for row in wrong if row.startswith(f"{key}=")) for key in keys]
    with pytest.raises(BadConfig) as caught:
        plan(*firsts, store="zookeeper.connect=a:b:c")
    told = {problem.partition(": ")[2].partition("=")[0] for problem in caught.value.problems}
    beside = {"inter.broker.listener.name", "group.max.session.timeout.ms"}  # wrong only by another that is wrong, too
    assert told >= {"zookeeper.connect", *keys} - beside


def test_broker_id_above_the_reserved_range_is_accepted_without_generation() -> None:
    assert plan("broker.id=5000", "broker.id.generation.enable=false").config.id == 5_000
    assert plan("broker.id=5000", "reserved.broker.max.id=5000").config.id == 5_000


def test_settings_of_replication_and_cleaning() -> None:
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    made = plan(
        f"replica.selector.class={selector}",
        "broker.rack=r1",
        "replica.lag.max.messages=4000",
        "zab.sync.writes=true",
        "zab.operators.hosts=kafka1, kafka1.example.com",
        "replica.high.watermark.checkpoint.interval.ms=1000",
        "replica.socket.timeout.ms=40000",
        "log.cleaner.enable=false",
        "producer.id.expiration.ms=5000",
        "offsets.commit.timeout.ms=7000",
    )
    assert made.warnings == ()
    assert made.operators_hosts == {"kafka1", "kafka1.example.com"}
    config, told = made.config, made.config.replication
    assert (told.follower_reads, told.lag_messages_max, told.sync_writes) == (True, 4_000, True)
    assert (config.watermark_checkpoint_s, config.fetch_answer_ms, config.commit_timeout_ms) == (1, 40_000, 7_000)
    assert (config.cleans, config.logs.producer_id_expiration_ms, config.rack) == (False, 5_000, "r1")
    usual = plan("broker.rack=", "replica.selector.class=").config
    assert (usual.replication.follower_reads, usual.replication.lag_messages_max, usual.rack) == (False, None, None)
    assert (usual.cleans, usual.replication.sync_writes) == (True, False)


def test_tools_get_defaults_of_unset_keys() -> None:
    said = plan("ssl.keystore.password=hush", "broker.rack=east").config.settings
    assert said["broker.rack"][:2] == ("east", True)
    assert said["ssl.keystore.password"][:2] == (None, True)
    assert said["ssl.client.auth"][:2] == ("none", False)
    assert said["num.partitions"][:2] == ("1", False)
    assert str(said["listener.security.protocol.map"].text).startswith("SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,")
    for key in ("advertised.listeners", "authorizer.class.name", "ssl.key.password", "log.retention.ms"):
        assert said[key][:2] == (None, False)
    told = {each.name: each for each in of_broker(Layers({}, {}, said), ["ssl.keystore.password", "super.users"])}
    assert [(each.value, each.is_sensitive) for each in told.values()] == [(None, True), (None, False)]


def test_synonyms_are_those_that_kafka_lists() -> None:
    """Kafka 3.9.1 answered so for a broker that was started with these lines."""
    said = plan("log.retention.hours=48", "offsets.topic.replication.factor=1", "log.segment.bytes=1000000").config

    def told(
        mine: dict[str, str], topic: dict[str, str]
    ) -> dict[str, tuple[str | None, int, list[tuple[str, str | None, int]]]]:
        layers = Layers(mine, {}, started_with(said.log, said.log_keys_in_file, {}, said.settings))
        entries = of_broker(layers) + of_topic(topic, layers)
        return {
            each.name: (
                each.value,
                each.source,
                [(one.name, one.value, one.source) for one in each.synonyms],
            )
            for each in entries
        }

    found = told({}, {})
    assert found["retention.ms"] == ("172800000", 5, [])
    assert found["log.retention.hours"] == (
        "48", 4, [("log.retention.hours", "48", 4), ("log.retention.hours", "168", 5)],
    )  # fmt: skip
    for name, value in (
        ("segment.ms", "604800000"),
        ("segment.jitter.ms", "0"),
        ("flush.ms", "9223372036854775807"),
        ("leader.replication.throttled.replicas", ""),
        ("advertised.listeners", None),
        ("broker.rack", None),
        ("ssl.key.password", None),
    ):
        assert found[name] == (value, 5, []), name
    for name, broker, usual in (
        ("message.downconversion.enable", "log.message.downconversion.enable", "true"),
        ("message.format.version", "log.message.format.version", "3.0-IV1"),
        ("preallocate", "log.preallocate", "false"),
        ("min.insync.replicas", "min.insync.replicas", "1"),
        ("cleanup.policy", "log.cleanup.policy", "delete"),
    ):
        assert found[name] == (usual, 5, [(broker, usual, 5)]), name
    assert found["segment.bytes"] == (
        "1000000", 4, [("log.segment.bytes", "1000000", 4), ("log.segment.bytes", "1073741824", 5)],
    )  # fmt: skip
    assert found["offsets.topic.replication.factor"] == (
        "1", 4, [("offsets.topic.replication.factor", "1", 4), ("offsets.topic.replication.factor", "3", 5)],
    )  # fmt: skip
    assert told({"log.retention.ms": "7"}, {"retention.ms": "5"})["retention.ms"] == (
        "5",
        1,
        [
            ("retention.ms", "5", 1),
            ("log.retention.ms", "7", 2),
            ("log.retention.hours", "48", 4),
            ("log.retention.hours", "168", 5),
        ],
    )


def test_the_bound_of_times_that_had_one_name_for_both_sides() -> None:
    both = "log.message.timestamp.difference.max.ms=1000"
    made = plan(both).config.log
    assert (made.message_timestamp_before_max_ms, made.message_timestamp_after_max_ms) == (1_000, 1_000)
    made = plan(both, "log.message.timestamp.after.max.ms=5").config.log
    assert (made.message_timestamp_before_max_ms, made.message_timestamp_after_max_ms) == (1_000, 5)
    assert plan("log.roll.jitter.hours=1").config.log.segment_jitter_ms == 3_600_000


def test_the_greatest_request_fits_among_those_that_wait() -> None:
    assert plan("socket.request.max.bytes=1000000000").config.port.waiting_bytes_total_max == 1_000_000_000
    assert plan("queued.max.request.bytes=0").config.port.waiting_bytes_total_max == 512 * 1024 * 1024


def test_common_keys_without_effect_are_not_typing_errors() -> None:
    pasted = (
        "log.message.format.version=3.0-IV1",
        "inter.broker.protocol.version=3.9-IV0",
        "log.cleaner.threads=1",
        "offsets.commit.required.acks=-1",
        "replica.high.watermark.checkpoint.interval.ms=5000",
        "quota.window.num=11",
        "zookeeper.sync.time.ms=2000",
        "offsets.topic.compression.codec=0",
        "principal.builder.class=org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
    )
    assert plan(*pasted).warnings == ()
    [warning] = plan("log.cleaner.threads=4").warnings
    assert warning.endswith("log.cleaner.threads=4: without effect: there is one cleaner thread")


def test_minus_one_is_for_ever_and_for_as_many_as_there_may_be() -> None:
    made = plan("log.retention.ms=-1", "connections.max.idle.ms=-1", "queued.max.request.bytes=-1").config
    assert (made.log.retention_ms, made.port.idle_s) == (-1, float("inf"))
    assert made.port.waiting_bytes_total_max == 512 * 1024 * 1024


@pytest.mark.parametrize("key", [key.name for key in KEYS.values() if not key.ignored and key.convert is not str])
def test_no_text_makes_a_reader_stumble(key: str) -> None:
    """Whatever is written, it is a value or an error in words; never one that some function happened to raise."""
    many = "9" * 30
    for text in ("", "-", "-1", "0", "1", many, f"-{many}", "1e3", "0x10", "\u0663", "nan", "a,b", ",", "://", ":"):
        for problem in problems_of(f"{key}={text}"):
            assert problem.startswith((f"p:2: {key}={text}: ", "p: "))
            assert "invalid literal" not in problem
            assert "could not convert" not in problem


def test_topic_setting_explains_the_expected_value() -> None:
    with pytest.raises(ValueError, match="^a whole number, -1 or more$"):
        topic_setting("log.retention.bytes")("many")
    assert topic_setting("log.retention.bytes")(str(LONG_MAX)) == str(LONG_MAX)


def test_letters_are_read_as_they_were_meant(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    head = b"zookeeper.connect=h\ndefault.replication.factor=1\n"
    for said, warned in (
        (b"broker.rack=caf\\u00e9", None),
        ("broker.rack=caf\u00e9".encode("utf-8"), "line 3: non-ASCII letters: read as UTF-8, but Kafka"),
        (
            "broker.rack=caf\u00e9".encode("latin-1"),
            "line 3: non-ASCII letters: the file is not UTF-8, so it is read as Latin-1",
        ),
    ):
        file.write_bytes(head + said)
        made = read_plan(file, {})
        assert made.config.rack == "caf\u00e9"
        assert [warned in warning for warning in made.warnings] == [True] if warned else made.warnings == ()
    file.write_bytes(head + b"broker.rack=\\u00g9")
    with pytest.raises(BadConfig, match="server.properties:3: four hexadecimal digits must follow"):
        read_plan(file, {})
    with pytest.raises(BadConfig, match="cannot be read: No such file"):
        read_plan(tmp_path / "nothing", {})


def test_users_of_a_listener_and_unauthenticated_brokers() -> None:
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


BETWEEN = "sasl.mechanism.inter.broker.protocol=PLAIN"
OWN_LOGIN = (
    "listener.name.in.plain.sasl.jaas.config="
    'x.PlainLoginModule required username="kafka" password="k" user_kafka="k" user_ann="a";'
)
IN = ("listeners=IN://:1", "listener.security.protocol.map=IN:SASL_PLAINTEXT")


def test_brokers_log_in_at_each_other_and_controllers_come_in_as_they_do() -> None:
    config = plan(*IN, BETWEEN, OWN_LOGIN).config
    assert config.inter_broker == "IN"
    assert config.peers.identity == Identity("PLAIN", "kafka", "k")
    assert config.controllers == config.peers
    assert (config.controller.name, config.controller.protocol) == ("CONTROLLER", "SASL_PLAINTEXT")
    assert config.controller.sasl == config.listeners[0].sasl
    apart = plan(IN[0], f"{IN[1]},CONTROLLER:PLAINTEXT", BETWEEN, OWN_LOGIN).config
    assert (apart.controller.protocol, apart.controller.sasl, apart.controllers) == ("PLAINTEXT", None, Peers())
    assert plan().config.peers == plan().config.controllers == Peers()


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ((OWN_LOGIN,), "brokers must authenticate at listener IN"),
        ((OWN_LOGIN, "sasl.mechanism.inter.broker.protocol=GSSAPI"), "brokers must authenticate at listener IN"),
        (
            (OWN_LOGIN, "sasl.mechanism.inter.broker.protocol=SCRAM-SHA-256"),
            "not in sasl.enabled.mechanisms of listener",
        ),
        ((OWN_LOGIN.replace("username", "user_name"), BETWEEN), "missing username"),
        ((OWN_LOGIN.replace('user_ann="a"', "user_ann"), BETWEEN), ":6: listener.name.in.plain.sasl.jaas.config"),
    ],
)
def test_logins_of_brokers_that_cannot_be(lines: tuple[str, ...], why: str) -> None:
    with pytest.raises(BadConfig, match=why):
        plan(*IN, "num.partitions=1", *lines)


def test_all_mistakes_of_a_listener_are_reported_together() -> None:
    wrong = {
        "ssl.client.auth": "maybe",
        "ssl.keystore.location": "/no/key.pem",
        "ssl.truststore.location": "/no/trust.pem",
        "ssl.enabled.protocols": "SSLv2",
        "num.partitions": "many",
    }
    with pytest.raises(BadConfig) as caught:
        plan("listeners=SSL://:1", *(f"{key}={value}" for key, value in wrong.items()))
    named = {line.split(": ")[1].partition("=")[0] for line in caught.value.problems}
    assert named == wrong.keys()


def test_a_wrong_escape_does_not_hide_other_mistakes() -> None:
    with pytest.raises(BadConfig) as caught:
        plan("broker.rack=\\u00", "num.partitions=many")
    assert [line.partition(":")[2].partition(":")[0] for line in caught.value.problems] == ["3", "4"]


def test_without_a_store_there_is_no_broker() -> None:
    with pytest.raises(BadConfig, match="zookeeper.connect: required"):
        plan_of("server.properties", "broker.id=1")


def test_secrets_are_not_reported() -> None:
    said = plan("ssl.key.password=x", "num.partitions=2").config.settings
    assert said["ssl.key.password"][:2] == (None, True)
    assert said["num.partitions"][:2] == ("2", True)
    assert said["default.replication.factor"][:2] == ("1", True)
    assert said["log.segment.bytes"][:2] == ("1073741824", False)


def test_no_key_stands_in_the_table_twice() -> None:
    from replica.cli.properties.keys import SECTIONS

    names = [key.name for _, keys in SECTIONS for key in keys]
    assert len(names) == len(set(names)) == len(KEYS)


# -- who may do what -------------------------------------------------------------------------------------

AUTHORIZER = "authorizer.class.name=kafka.security.authorizer.AclAuthorizer"


def test_acls_decide_when_an_authorizer_is_configured() -> None:
    assert plan().config.acls is None
    assert plan(AUTHORIZER).config.acls == AclSettings()
    more = plan(AUTHORIZER, "super.users=User:ann; User:bob;", "allow.everyone.if.no.acl.found=true")
    assert more.config.acls == AclSettings(frozenset({"User:ann", "User:bob"}), open_by_default=True)
    assert more.warnings == ()
    assert "every client may do everything" in plan("super.users=User:ann").warnings[0]


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (
            ["authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"],
            "no other authorizer is supported",
        ),
        ([AUTHORIZER, "super.users=ann"], "use the form User:ann"),
        ([AUTHORIZER, "authorizer.zookeeper.url=h:1"], "ignoring it would not be safe"),
        (["create.topic.policy.class.name=x.Mine"], "ignoring it would not be safe"),
        (["ssl.engine.factory.class=x.Mine"], "ignoring it would not be safe"),
        (["listener.name.plaintext.plain.sasl.server.callback.handler.class=x.Mine"], "would not be safe"),
    ],
)
def test_less_security_than_configured_ends_the_start(lines: list[str], why: str) -> None:
    with pytest.raises(BadConfig, match=why):
        plan(*lines)


def test_the_file_that_is_shown_to_operators_is_understood_without_a_warning() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "howto" / "run-brokers.md").read_text()
    [shown] = re.findall(r"^```properties\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    made = plan_of("server.properties", shown)
    assert made.warnings == ()
    assert [each.name for each in made.config.listeners] == ["PLAINTEXT"]
    assert (made.config.controller.host, made.config.controller.port) == ("10.0.0.1", 9090)
