"""Kafka's error codes in replies between brokers and the controller."""

from __future__ import annotations

from typing import Final

UNKNOWN_SERVER_ERROR: Final = -1
NONE: Final = 0
LEADER_NOT_AVAILABLE: Final = 5
BROKER_NOT_AVAILABLE: Final = 8
STALE_CONTROLLER_EPOCH: Final = 11
NOT_CONTROLLER: Final = 41
KAFKA_STORAGE_ERROR: Final = 56
"""The replica's log directory failed."""
STALE_BROKER_EPOCH: Final = 77
ANOTHER_BROKER: Final = 102
"""The command is addressed to another broker, but that broker's registered endpoint leads to this one."""
INCONSISTENT_TOPIC_ID: Final = 103
"""The log has another topic id than the command. The log may belong to another topic, or its metadata file may be
damaged."""
