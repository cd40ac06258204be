"""Kafka's keys, read from text and told as text."""

from __future__ import annotations

import pytest

from kraft_controller.core.configuration.config_keys import TOPIC
from replica.core.errors import ErrorCode, KafkaError
from replica.core.partitions.log_config import NAMES, LogConfig


def test_defaults_and_overrides() -> None:
    broker = LogConfig.of({"retention.ms": "1000"})
    topic = LogConfig.of({"cleanup.policy": "compact, delete", "compression.type": "zstd"}, broker)
    assert (topic.retention_ms, topic.compact, topic.delete, topic.compression_type) == (1000, True, True, "zstd")
    assert LogConfig().compression_type == "producer"
    assert LogConfig.of(topic.as_text()) == topic


def test_topic_without_cleanup_policy_keeps_all_records() -> None:
    config = LogConfig.of({"cleanup.policy": ""})
    assert (config.compact, config.delete, config.as_text()["cleanup.policy"]) == (False, False, "")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("segment.bytes", "13"),
        ("segment.bytes", "3000000000"),
        ("segment.bytes", "many"),
        ("cleanup.policy", "burn"),
        ("cleanup.policy", "compact,"),
        ("cleanup.policy", "Compact"),
        ("compression.type", "rar"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("preallocate", "perhaps"),
        ("retention.ms", "-2"),
        ("no.such.key", "1"),
    ],
)
def test_invalid_settings_are_refused(key: str, value: str) -> None:
    with pytest.raises(KafkaError, match=key) as caught:
        LogConfig.of({key: value})
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_compaction_lags_must_fit_together() -> None:
    with pytest.raises(KafkaError, match=r"min\.compaction\.lag\.ms"):
        LogConfig.of({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"})


def test_each_topic_key_is_for_logs_or_throttles_or_has_no_effect() -> None:
    others = {name for name, key in TOPIC.items() if key.idle or name.endswith("throttled.replicas")}
    assert set(NAMES) == set(LogConfig().as_text()) == set(TOPIC) - others
    for name, text in LogConfig().as_text().items():
        assert text == TOPIC[name].default


def test_keys_of_other_parts_are_checked_and_ignored() -> None:
    assert LogConfig.of({"leader.replication.throttled.replicas": "0:1", "message.format.version": "1"}) == LogConfig()
    with pytest.raises(KafkaError, match="such as 0:1,0:2"):
        LogConfig.of({"leader.replication.throttled.replicas": "0:1,two"})
