"""Nodes as Kafka's own tools write them, old versions included; and what is no such node."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_controller.core.names import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicId,
    TopicPartition,
    Version,
    may_collide,
    metric_name,
    wrong_with_name,
)
from kraft_controller.core.state import Assignment, Broker, Endpoint, PartitionState, Recovery
from kraft_controller.wire import znodes
from kraft_controller.wire.znodes import DamagedNode

T0 = TopicPartition("t", 0)


def ids(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(number) for number in numbers)


@pytest.mark.mechanism(48, 49)
def test_the_controller() -> None:
    assert json.loads(znodes.controller(BrokerId(3), 1_700_000_000_000)) == {
        "version": 2, "brokerid": 3, "timestamp": "1700000000000", "kraftControllerEpoch": -1,
    }  # fmt: skip
    assert znodes.read_controller(b'{"version":1,"brokerid":2,"timestamp":"1"}') == 2
    assert znodes.controller_epoch(ControllerEpoch(12)) == b"12"
    assert znodes.read_controller_epoch(b"12") == 12


@pytest.mark.mechanism(45)
def test_a_broker() -> None:
    registered = Broker(
        BrokerId(1), BrokerEpoch(77),
        (Endpoint("SSL", "h", 9093), Endpoint("INTERNAL", "fe80::1", 9092)),
        {"SSL": "SSL", "INTERNAL": "PLAINTEXT"}, "r1", {"metadata.version": (1, 7)},
    )  # fmt: skip
    data = znodes.broker(registered, 5)
    assert json.loads(data) == {
        "version": 5, "host": "fe80::1", "port": 9092, "endpoints": ["SSL://h:9093", "INTERNAL://[fe80::1]:9092"],
        "jmx_port": -1, "timestamp": "5", "rack": "r1",
        "listener_security_protocol_map": {"SSL": "SSL", "INTERNAL": "PLAINTEXT"},
        "features": {"metadata.version": {"min_version": 1, "max_version": 7}},
    }  # fmt: skip
    assert znodes.read_broker(BrokerId(1), data, BrokerEpoch(77)) == registered


@pytest.mark.parametrize(
    "data",
    [
        b'{"version":1,"host":"h","port":9092,"jmx_port":-1,"timestamp":"1"}',
        b'{"version":2,"host":"h","port":9092,"endpoints":["PLAINTEXT://h:9092"],"jmx_port":-1,"timestamp":"1"}',
        b'{"version":3,"host":"h","port":9092,"endpoints":["PLAINTEXT://h:9092"],"rack":null,"timestamp":"1"}',
        b'{"version":4,"port":-1,"endpoints":["L://h:9092"],"more":{},"listener_security_protocol_map":{"L":"PLAINTEXT"}}',
    ],
)
def test_brokers_of_older_versions(data: bytes) -> None:
    read = znodes.read_broker(BrokerId(1), data, BrokerEpoch(1))
    [endpoint] = read.endpoints
    assert (endpoint.host, endpoint.port, read.rack) == ("h", 9092, None)
    assert read.protocols == {endpoint.listener: "PLAINTEXT"}


def test_a_topic() -> None:
    moving = {0: Assignment(ids(4, 1, 2), ids(4), ids(1)), 1: Assignment(ids(2, 3))}
    data = znodes.topic(TopicId("abcdefghijklmnopqrstuv"), moving)
    assert json.loads(data) == {
        "version": 3, "topic_id": "abcdefghijklmnopqrstuv", "partitions": {"0": [4, 1, 2], "1": [2, 3]},
        "adding_replicas": {"0": [4]}, "removing_replicas": {"0": [1]},
    }  # fmt: skip
    read = znodes.read_topic("t", data, Version(3))
    assert (read.id, read.partitions, read.version) == ("abcdefghijklmnopqrstuv", moving, 3)
    old = znodes.read_topic("t", b'{"version":1,"partitions":{"0":[1]}}', Version(0))
    assert (old.id, old.partitions) == (None, {0: Assignment(ids(1))})


def test_topic_ids() -> None:
    chances = iter([bytes(16), bytes(15) + b"\x01", b"\xf8" + bytes(15), b"\x01" * 16])
    made = znodes.new_topic_id(lambda size: next(chances))
    assert made == "AQEBAQEBAQEBAQEBAQEBAQ"
    assert len(made) == 22


@pytest.mark.mechanism(46)
def test_a_partition() -> None:
    led = PartitionState(BrokerId(1), ids(1, 2), LeaderEpoch(4), ControllerEpoch(7), version=Version(9))
    data = znodes.partition_state(led)
    assert json.loads(data) == {"version": 1, "leader": 1, "leader_epoch": 4, "controller_epoch": 7, "isr": [1, 2]}
    assert znodes.read_partition_state(T0, data, Version(9)) == led
    recovering = PartitionState(BrokerId(1), ids(1), recovery=Recovery.RECOVERING)
    data = znodes.partition_state(recovering)
    assert json.loads(data)["leader_recovery_state"] == 1
    assert znodes.read_partition_state(T0, data, Version(0)) == recovering


def test_lists_of_partitions() -> None:
    wanted = {T0: ids(1, 2), TopicPartition("u", 3): ids(4)}
    assert znodes.read_partitions("/x", znodes.partitions(wanted)) == tuple(wanted)
    assert znodes.read_reassignment(znodes.reassignment(wanted)) == wanted


def test_configurations_and_the_rest() -> None:
    assert znodes.read_config("/c", znodes.config({"retention.ms": "1"})) == {"retention.ms": "1"}
    assert znodes.read_config_change("/c", znodes.config_change("topics", "t")) == "topics/t"
    assert znodes.read_config_change("/c", b'{"version":1,"entity_type":"topics","entity_name":"t"}') == "topics/t"
    assert znodes.read_producer_ids(znodes.producer_ids(BrokerId(1), 0, 999)) == (1, 0, 999)
    assert znodes.read_log_dir_event("/l", znodes.log_dir_event(BrokerId(2))) == 2
    assert znodes.read_cluster_id(znodes.cluster_id("abc")) == "abc"


READERS: dict[str, Callable[[bytes], object]] = {
    "controller": znodes.read_controller,
    "controller_epoch": znodes.read_controller_epoch,
    "cluster_id": znodes.read_cluster_id,
    "broker": lambda data: znodes.read_broker(BrokerId(1), data, BrokerEpoch(1)),
    "topic": lambda data: znodes.read_topic("t", data, Version(0)),
    "state": lambda data: znodes.read_partition_state(T0, data, Version(0)),
    "partitions": lambda data: znodes.read_partitions("/x", data),
    "reassignment": znodes.read_reassignment,
    "config": lambda data: znodes.read_config("/x", data),
    "config change": lambda data: znodes.read_config_change("/x", data),
    "producer ids": znodes.read_producer_ids,
    "log dir event": lambda data: znodes.read_log_dir_event("/x", data),
}


@pytest.mark.parametrize(
    ("which", "data", "why"),
    [
        ("state", b'{"version":1,"leader":1,"leader_', "/brokers/topics/t/partitions/0/state: not JSON"),
        ("state", b'{"version":1,"leader":1,"leader_epoch":0,"controller_epoch":1}', "state: isr is missing"),
        ("state", b'{"version":1,"leader":"x","leader_epoch":0,"controller_epoch":1,"isr":[]}', "state: leader: "),
        ("state", b'{"version":1,"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":[1,1]}', "listed twice"),
        ("topic", b'[1]', "/brokers/topics/t: expected a JSON object, not list"),
        ("topic", b'{"version":0,"partitions":{}}', "version 0 is too old; the oldest supported one is 1"),
        ("topic", b'{"version":3,"partitions":{"0":[]}}', "partition 0 has no replicas"),
        ("topic", b'{"version":3,"partitions":{"-1":[1]}}', "partitions: -1 is not a valid partition"),
        ("topic", b'{"version":3,"partitions":{"0":[1]},"adding_replicas":{"1":[2]}}', "but is not among"),
        ("topic", b'{"version":3,"partitions":{"0":[1]},"adding_replicas":{"0":[2]}}', r"\[2\] are not among"),
        ("broker", b'{"version":5,"endpoints":["nonsense"]}', "endpoints: 'nonsense' is not LISTENER://host:port"),
        ("controller_epoch", b"many", "/controller_epoch: expected a number from 0 to 2147483646, not b'many'"),
        # Numbers that no client could be told: once let in, they would end up in every reply that names the topic.
        ("controller_epoch", b"2147483647", "/controller_epoch: expected a number from 0 to"),
        ("controller", b'{"version":1,"brokerid":2147483648}', "2147483648 is not a valid broker id"),
        ("state", b'{"version":1,"leader":1,"leader_epoch":99999999999,"controller_epoch":1,"isr":[1]}', "valid epoch"),
        ("state", b'{"version":1,"leader":-2,"leader_epoch":0,"controller_epoch":1,"isr":[1]}', "-2 is not a valid"),
        ("state", b'{"version":1,"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":[-1]}', "-1 is not a valid"),
        ("topic", b'{"version":3,"partitions":{"99999999999":[1]}}', "99999999999 is not a valid"),
        ("topic", b'{"version":3,"partitions":{"0":[99999999999]}}', "99999999999 is not a valid broker id"),
        ("topic", b'{"version":3,"partitions":{"0":[1]},"topic_id":"zz"}', "topic_id: 'zz' is not a topic id"),
        ("topic", b'{"version":3,"partitions":{"0":[1]},"topic_id":"%s"}' % (b"!" * 22), "is not a topic id"),
        ("broker", b'{"version":5,"endpoints":["PLAINTEXT://h:70000"]}', "70000 is not a valid port; expected 0"),
        ("broker", b'{"version":1,"host":"h","port":-7}', "-7 is not a valid port"),
        ("reassignment", b'{"version":1,"partitions":[{"topic":"t","partition":0}]}', "partitions: 'replicas'"),
    ],
)  # fmt: skip
def test_damage_is_named(which: str, data: bytes, why: str) -> None:
    with pytest.raises(DamagedNode, match=why):
        READERS[which](data)


def test_registration_under_an_illegal_id_is_damaged() -> None:
    with pytest.raises(DamagedNode, match="/brokers/ids/99999999999: 99999999999 is not a valid broker id"):
        znodes.read_broker(BrokerId(99999999999), b'{"version":1,"host":"h","port":1}', BrokerEpoch(1))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ["version", "partitions", "replicas", "topic", "partition", "leader", "isr", "0", "endpoints", "features"]
    ), inner, max_size=5),
    max_leaves=8,
)  # fmt: skip


@pytest.mark.parametrize("which", READERS)
@given(data=st.binary(max_size=40) | json_values.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_parse_or_are_damaged(which: str, data: bytes) -> None:
    with suppress(DamagedNode):
        READERS[which](data)


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "ü", "x" * 250])
def test_illegal_topic_names(name: str) -> None:
    assert wrong_with_name(name)


def test_legal_topic_names() -> None:
    for name in ("a", "A.b_c-9", "x" * 249, "__consumer_offsets"):
        assert wrong_with_name(name) is None


def test_names_collide_if_they_are_equal_in_metrics() -> None:
    assert metric_name("a.b") == metric_name("a_b") != metric_name("a-b")
    assert may_collide("a.b")
    assert may_collide("a_b")
    assert not may_collide("a-b")


@pytest.mark.parametrize("half", [b'"\\ud800"', b'"\xed\xa0\x80"'])
def test_lone_surrogate_is_damage(half: bytes) -> None:
    """It can be told to nobody: neither to brokers nor to whoever looks."""
    made = b'{"version":5,"endpoints":["P://h:1"],"listener_security_protocol_map":{"P":"PLAINTEXT"},"rack":%b}' % half
    with pytest.raises(DamagedNode, match="/brokers/ids/1: not JSON"):
        znodes.read_broker(BrokerId(1), made, BrokerEpoch(1))
    with pytest.raises(DamagedNode, match="not JSON"):
        znodes.read_config("/config/topics/t", b'{"version":1,"config":{"retention.ms":%b}}' % half)


def test_surrogate_pair_is_parsed() -> None:
    config = b'{"version":1,"config":{"k":"\\ud83d\\ude00 \\u00e4"}}'
    assert znodes.read_config("/config/users/u", config) == {"k": "\U0001f600 \u00e4"}


@pytest.mark.parametrize("named", ["topics", "topics/", "/t", "topics//t", "topics/..", "topics/a\\u0000b", ""])
def test_notification_without_an_entity_is_damaged(named: str) -> None:
    note = f'{{"version":2,"entity_path":"{named}"}}'.encode()
    with pytest.raises(DamagedNode, match="is not an entity"):
        znodes.read_config_change("/config/changes/config_change_1", note)


def test_numbers_beyond_the_protocol_are_damaged() -> None:
    made = (
        b'{"version":5,"endpoints":["P://h:1"],"features":{"f":{"min_version":1,"max_version":99999999999999999999}}}'
    )
    with pytest.raises(DamagedNode, match="is not a valid version of a feature"):
        znodes.read_broker(BrokerId(1), made, BrokerEpoch(1))
