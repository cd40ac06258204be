"""What a configuration is after it was altered, and what is refused, by every way in."""

from __future__ import annotations

import pytest

from kraft_controller.core.configuration import config_alteration
from kraft_controller.core.configuration.config_alteration import Alteration, Operation
from kraft_controller.core.configuration.config_keys import KEYS, TOPIC, ConfigError, key_of

SET, DELETE, APPEND, SUBTRACT = Operation


def test_keys_are_altered_one_by_one() -> None:
    change = config_alteration.altered(
        "topics",
        [
            Alteration("retention.ms", SET, "5"),
            Alteration("segment.bytes", DELETE),
            Alteration("cleanup.policy", APPEND, "compact"),
            Alteration("follower.replication.throttled.replicas", SUBTRACT, "0:1"),
        ],
        {"cleanup.policy": "delete"},
    )
    before = {"segment.bytes": "99", "preallocate": "true", "follower.replication.throttled.replicas": "0:1,0:2"}
    assert change(before) == {
        "preallocate": "true",
        "retention.ms": "5",
        "cleanup.policy": "delete,compact",
        "follower.replication.throttled.replicas": "0:2",
    }
    assert change(change(before)) == change(before)  # once more does no harm: an answer may have been lost


@pytest.mark.parametrize(
    ("operation", "after"), [(APPEND, "compact,delete"), (SUBTRACT, "compact")], ids=["append", "subtract"]
)
def test_spaces_in_a_stored_list_do_not_matter(operation: Operation, after: str) -> None:
    change = config_alteration.altered("topics", [Alteration("cleanup.policy", operation, "delete")], {})
    assert change({"cleanup.policy": "compact, delete"}) == {"cleanup.policy": after}


def test_a_topic_may_neither_delete_nor_compact() -> None:
    """Kafka 3.9 takes an empty cleanup.policy, too: all records are kept."""
    assert config_alteration.replaced("topics", {"cleanup.policy": ""})({}) == {"cleanup.policy": ""}
    subtracted = config_alteration.altered("topics", [Alteration("cleanup.policy", SUBTRACT, "delete")], {})
    assert subtracted({"cleanup.policy": "delete"}) == {"cleanup.policy": ""}


@pytest.mark.parametrize(
    "key",
    ["sasl.kerberos.min.time.before.relogin", "log.cleaner.backoff.ms", "num.io.threads", "log.message.format.version"],
)
def test_keys_that_kafka_changes_while_it_runs_are_accepted(key: str) -> None:
    value = KEYS["brokers"][key].default or ""
    assert config_alteration.replaced("brokers", {key: value})({}) == {key: value}


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("cleanup.policy", "; did you mean log.cleanup.policy?"),
        ("num_io_threads", "; did you mean num.io.threads?"),
        ("colour", ""),
    ],
)
def test_brokers_accept_a_name_that_no_table_has_without_effect(name: str, near: str) -> None:
    assert config_alteration.replaced("brokers", {name: "compact"})({}) == {name: "compact"}
    assert config_alteration.altered("brokers", [Alteration(name, SET, "1")], {})({}) == {name: "1"}
    assert key_of("brokers", name).idle == f"brokers have no such key{near}"


@pytest.mark.parametrize("name", ["broker.id", "log.dirs", "advertised.listeners", "listener.name.in.sasl.jaas.config"])
def test_key_that_only_the_file_sets_is_refused_and_can_be_unset(name: str) -> None:
    with pytest.raises(ConfigError, match=f"Cannot update these configs dynamically: {name}. Set them in the broker's"):
        config_alteration.replaced("brokers", {name: "7"})
    assert config_alteration.altered("brokers", [Alteration(name, DELETE)], {})({name: "7"}) == {}


def test_configuration_is_replaced_as_a_whole() -> None:
    before = {"retention.ms": "5", "of.another.broker": "x"}
    assert config_alteration.replaced("topics", {"flush.ms": "1"})(before) == {"flush.ms": "1"}
    assert config_alteration.put("topics", {"flush.ms": "1"}, ["retention.ms"])(before) == {
        "of.another.broker": "x",
        "flush.ms": "1",
    }


@pytest.mark.parametrize(
    ("why", "alterations"),
    [
        ("topics have no such key", [Alteration("colour", SET, "red")]),
        ("did you mean retention.ms", [Alteration("retention_ms", SET, "1")]),
        ("a whole number, -1 or more", [Alteration("retention.ms", SET, "-2")]),
        ("has no value", [Alteration("retention.ms", SET)]),
        ("is not a list", [Alteration("retention.ms", APPEND, "1")]),
        ("one of delete, compact", [Alteration("cleanup.policy", SET, "compact,")]),
        ("such as 0:1,0:2", [Alteration("leader.replication.throttled.replicas", SET, "1")]),
        ("more than once", [Alteration("flush.ms", SET, "1"), Alteration("flush.ms", DELETE)]),
        ("must not be above", [Alteration("min.compaction.lag.ms", SET, "8")]),
    ],
)
def test_invalid_alteration_is_refused_with_reason(why: str, alterations: list[Alteration]) -> None:
    with pytest.raises(ConfigError, match=why):
        config_alteration.altered("topics", alterations, {"cleanup.policy": "delete"})({"max.compaction.lag.ms": "7"})


def test_every_default_is_a_value_and_every_topic_key_of_brokers_is_one_of_theirs() -> None:
    for keys in KEYS.values():
        for key in keys.values():
            if key.default is not None:
                key.value(key.default)
    for key in TOPIC.values():
        if key.broker is not None:
            assert KEYS["brokers"][key.broker].default == key.default
