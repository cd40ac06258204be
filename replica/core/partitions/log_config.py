"""The settings of one topic's logs. A topic's own settings override the broker's.

`kraft_controller.core.configuration.config_keys` defines the keys, their types and their defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import evolve, field, fields, frozen

from kraft_controller.core.configuration.config_keys import INT_MAX, TOPIC, ConfigError, check, check_together
from replica.core.errors import ErrorCode, KafkaError

UNBOUNDED: Final = -1
RELATIVE_MAX: Final = INT_MAX
"""The largest offset of a segment relative to its base offset: indexes store it in four bytes."""


def _setting(key: str) -> Any:
    row = TOPIC[key]
    assert row.default is not None
    return field(default=row.value(row.default), metadata={"key": key})


@frozen
class LogConfig:
    """The settings of one topic's logs. `LogConfig.of({"segment.bytes": "1000000"})` changes one default."""

    cleanup_policy: tuple[str, ...] = _setting("cleanup.policy")
    compression_type: str = _setting("compression.type")
    delete_retention_ms: int = _setting("delete.retention.ms")
    file_delete_delay_ms: int = _setting("file.delete.delay.ms")
    flush_messages: int = _setting("flush.messages")
    flush_ms: int = _setting("flush.ms")
    index_interval_bytes: int = _setting("index.interval.bytes")
    max_compaction_lag_ms: int = _setting("max.compaction.lag.ms")
    max_message_bytes: int = _setting("max.message.bytes")
    message_timestamp_after_max_ms: int = _setting("message.timestamp.after.max.ms")
    message_timestamp_before_max_ms: int = _setting("message.timestamp.before.max.ms")
    message_timestamp_type: str = _setting("message.timestamp.type")
    min_cleanable_dirty_ratio: float = _setting("min.cleanable.dirty.ratio")
    min_compaction_lag_ms: int = _setting("min.compaction.lag.ms")
    min_insync_replicas: int = _setting("min.insync.replicas")
    retention_bytes: int = _setting("retention.bytes")
    retention_ms: int = _setting("retention.ms")
    segment_bytes: int = _setting("segment.bytes")
    segment_index_bytes: int = _setting("segment.index.bytes")
    segment_jitter_ms: int = _setting("segment.jitter.ms")
    segment_ms: int = _setting("segment.ms")
    unclean_leader_election_enable: bool = _setting("unclean.leader.election.enable")

    @staticmethod
    def of(overrides: Mapping[str, str], defaults: LogConfig | None = None) -> LogConfig:
        """Apply overrides to the defaults. Raise `KafkaError` INVALID_CONFIG if a key or value is invalid, or if two
        values contradict each other."""
        base = defaults or LogConfig()
        changes: dict[str, Any] = {}
        try:
            check("topics", overrides)
            for key, text in overrides.items():
                if key in NAMES:
                    changes[NAMES[key]] = TOPIC[key].value(text)
            config = evolve(base, **changes)
            texts = config.as_text()
            check_together("topics", texts)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
        return config

    def as_text(self) -> dict[str, str]:
        """Return each key with its value, as DescribeConfigs reports it."""
        return {each.metadata["key"]: _write(getattr(self, each.name)) for each in fields(LogConfig)}

    @property
    def compact(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"


NAMES: Final[Mapping[str, str]] = {each.metadata["key"]: each.name for each in fields(LogConfig)}
"""The attribute of each topic key. Topic keys that do not concern logs are absent."""


def _write(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, tuple) else str(value)
