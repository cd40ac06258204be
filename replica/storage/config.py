"""What can be set for one topic's logs; a topic's own stand before the broker's. The keys, what they may be and what
they are by default stand in `kraft_controller.core.config_keys`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import evolve, field, fields, frozen

from kraft_controller.core.config_keys import INT_MAX, TOPIC, ConfigError, check, check_together
from replica.core.errors import ErrorCode, KafkaError
from replica.wire.compression import Codec
from replica.wire.validation import Rules

UNBOUNDED: Final = -1
RELATIVE_MAX: Final = INT_MAX
"""Offsets in a segment's indexes are told from its first one, in four bytes."""


def _setting(key: str) -> Any:
    row = TOPIC[key]
    assert row.default is not None
    return field(default=row.value(row.default), metadata={"key": key})


@frozen
class LogConfig:
    """One attribute for each key that matters to a log; `LogConfig.of({"segment.bytes": "1000000"})`."""

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
    preallocate: bool = _setting("preallocate")
    retention_bytes: int = _setting("retention.bytes")
    retention_ms: int = _setting("retention.ms")
    segment_bytes: int = _setting("segment.bytes")
    segment_index_bytes: int = _setting("segment.index.bytes")
    segment_jitter_ms: int = _setting("segment.jitter.ms")
    segment_ms: int = _setting("segment.ms")
    unclean_leader_election_enable: bool = _setting("unclean.leader.election.enable")

    @staticmethod
    def of(overrides: Mapping[str, str], defaults: LogConfig | None = None) -> LogConfig:
        """`KafkaError` INVALID_CONFIG names the key, the value and what would do."""
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
        """Every key with its value, as a description of the topic tells it."""
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

    @property
    def codec(self) -> Codec | None:
        """What batches are compressed with here; None: as the producer did."""
        return next((each for each in Codec if each.label == self.compression_type), None)

    def rules(self, *, many: bool = False) -> Rules:
        return Rules(
            bytes_max=self.max_message_bytes,
            segment_bytes=self.segment_bytes,
            compacted=self.compact,
            append_time=self.append_time,
            before_max_ms=self.message_timestamp_before_max_ms,
            after_max_ms=self.message_timestamp_after_max_ms,
            many=many,
        )


NAMES: Final[Mapping[str, str]] = {each.metadata["key"]: each.name for each in fields(LogConfig)}
"""Of a topic's key, the attribute. Keys of topics that are none of their logs are not here."""


def _write(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, tuple) else str(value)
