"""What can be set for one topic's logs, under Kafka's names; a topic's own stand before the broker's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import evolve, field, fields, frozen

from replica.core.errors import ErrorCode, KafkaError
from replica.wire.compression import Codec
from replica.wire.validation import LONG_MAX, Rules

UNBOUNDED: Final = -1
INT_MAX: Final = (1 << 31) - 1
RELATIVE_MAX: Final = INT_MAX
"""Offsets in a segment's indexes are told from its first one, in four bytes."""


def _whole(least: int, most: int = LONG_MAX) -> Any:
    return {"read": int, "least": least, "most": most}


def _list(*known: str) -> Any:
    return {"read": lambda text: tuple(each.strip() for each in text.split(",") if each.strip()), "known": known}


def _word(*known: str) -> Any:
    return {"read": str, "known": known}


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _setting(key: str, default: Any, kind: Any) -> Any:
    return field(default=default, metadata={"key": key, **kind})


@frozen
class LogConfig:
    """One attribute for each key. `LogConfig.of({"segment.bytes": "1000000"})` reads and checks them."""

    cleanup_policy: tuple[str, ...] = _setting("cleanup.policy", ("delete",), _list("delete", "compact"))
    compression_type: str = _setting("compression.type", "producer", _word("producer", *(each.label for each in Codec)))
    delete_retention_ms: int = _setting("delete.retention.ms", 86_400_000, _whole(0))
    file_delete_delay_ms: int = _setting("file.delete.delay.ms", 60_000, _whole(0))
    flush_messages: int = _setting("flush.messages", LONG_MAX, _whole(1))
    flush_ms: int = _setting("flush.ms", LONG_MAX, _whole(0))
    index_interval_bytes: int = _setting("index.interval.bytes", 4096, _whole(0, INT_MAX))
    max_compaction_lag_ms: int = _setting("max.compaction.lag.ms", LONG_MAX, _whole(1))
    max_message_bytes: int = _setting("max.message.bytes", 1_048_588, _whole(0, INT_MAX))
    message_timestamp_after_max_ms: int = _setting("message.timestamp.after.max.ms", 3_600_000, _whole(0))
    message_timestamp_before_max_ms: int = _setting("message.timestamp.before.max.ms", LONG_MAX, _whole(0))
    message_timestamp_type: str = _setting("message.timestamp.type", "CreateTime", _word("CreateTime", "LogAppendTime"))
    min_cleanable_dirty_ratio: float = _setting(
        "min.cleanable.dirty.ratio", 0.5, {"read": float, "least": 0.0, "most": 1.0}
    )
    min_compaction_lag_ms: int = _setting("min.compaction.lag.ms", 0, _whole(0))
    min_insync_replicas: int = _setting("min.insync.replicas", 1, _whole(1, INT_MAX))
    preallocate: bool = _setting("preallocate", False, {"read": _flag})
    retention_bytes: int = _setting("retention.bytes", UNBOUNDED, _whole(-1))
    retention_ms: int = _setting("retention.ms", 604_800_000, _whole(-1))
    segment_bytes: int = _setting("segment.bytes", 1 << 30, _whole(14, INT_MAX))
    segment_index_bytes: int = _setting("segment.index.bytes", 10 << 20, _whole(24, INT_MAX))
    segment_jitter_ms: int = _setting("segment.jitter.ms", 0, _whole(0))
    segment_ms: int = _setting("segment.ms", 604_800_000, _whole(1))
    unclean_leader_election_enable: bool = _setting("unclean.leader.election.enable", False, {"read": _flag})

    @staticmethod
    def of(overrides: Mapping[str, str], defaults: LogConfig | None = None) -> LogConfig:
        """`KafkaError` INVALID_CONFIG names the key, the value and what would do."""
        base = defaults or LogConfig()
        by_key = {each.metadata["key"]: each for each in fields(LogConfig)}
        changes: dict[str, Any] = {}
        for key, text in overrides.items():
            if key not in by_key:
                raise _bad(f"{key} is no setting of a topic; there are {', '.join(sorted(by_key))}")
            changes[by_key[key].name] = _read(key, text, by_key[key].metadata)
        config = evolve(base, **changes)
        if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
            raise _bad("min.compaction.lag.ms must not be above max.compaction.lag.ms")
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


TYPES: Final[Mapping[str, str]] = {
    each.metadata["key"]: {bool: "bool", int: "int", float: "double", tuple: "list"}.get(type(each.default), "string")
    for each in fields(LogConfig)
}
"""What kind of value a key takes, as DescribeConfigs tells it; whole numbers are int or long there by their bound."""


def _read(key: str, text: str, rule: Mapping[str, Any]) -> Any:
    try:
        value = rule["read"](text.strip())
    except ValueError:
        raise _bad(f"{key}={text}: this is no value of its kind") from None
    if "least" in rule and not rule["least"] <= value <= rule["most"]:
        raise _bad(f"{key}={text}: it must be from {rule['least']} to {rule['most']}")
    if "known" in rule:
        chosen = value if isinstance(value, tuple) else (value,)
        if not chosen or any(each not in rule["known"] for each in chosen):
            raise _bad(f"{key}={text}: known here are {', '.join(rule['known'])}")
    return value


def _write(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _bad(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, text)
