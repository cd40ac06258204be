"""Identifiers and epochs of brokers, controllers, topics and partitions, and the rules for topic names."""

from __future__ import annotations

import re
from typing import Final, NamedTuple, NewType

BrokerId = NewType("BrokerId", int)
"""The number of a broker: `broker.id` or `node.id` of its file."""
ControllerEpoch = NewType("ControllerEpoch", int)
"""Counts controller elections. Brokers refuse commands with an epoch older than the newest that they know."""
BrokerEpoch = NewType("BrokerEpoch", int)
"""The zxid that created a broker's registration. Each registration has a different one."""
LeaderEpoch = NewType("LeaderEpoch", int)
"""Counts the controllers' decisions about one partition."""
Version = NewType("Version", int)
"""A node's data version in the store. Kafka calls the version of a partition's state node the partition epoch."""
TopicId = NewType("TopicId", str)
"""22 characters of base64. A topic that is deleted and created again has a different id."""

NO_BROKER: Final = BrokerId(-1)
"""The id in a field that names no broker."""
NO_LEADER: Final = NO_BROKER
"""The leader's id in the state of a partition without a leader."""
DELETED: Final = BrokerId(-2)
"""The leader's id of a deleted partition in UpdateMetadata: the receiver forgets the partition (LeaderDuringDelete)."""

NAME_MAX: Final = 249
OFFSETS_TOPIC: Final = "__consumer_offsets"
"""Group coordinators store groups and their committed offsets in this topic."""
TRANSACTIONS_TOPIC: Final = "__transaction_state"
"""Transaction coordinators store the states of transactional ids in this topic."""
INTERNAL: Final = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")
_DIGITS: Final = re.compile(r"[0-9]{1,19}")


class TopicPartition(NamedTuple):
    """One partition: the name of its `topic`, and its number `partition`, from 0."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def decimal(text: str, most: int = (1 << 31) - 1) -> int | None:
    """Return the number that `text` contains; None unless `text` is 1 to 19 digits and the number is at most `most`.

    Nodes of the store and configuration values may contain anything, and `int` raises for more than 4,300 digits.
    """
    if not _DIGITS.fullmatch(text):
        return None
    number = int(text)
    return number if number <= most else None


def wrong_with_name(name: str) -> str | None:
    """Return the reason if this is not a valid topic name, else None."""
    if not name:
        return "the topic name is empty"
    if name in (".", ".."):
        return f"{name!r} is not a valid topic name: '.' and '..' are reserved"
    if len(name) > NAME_MAX:
        return f"a topic name has at most {NAME_MAX} characters; this one has {len(name)}"
    if not _LEGAL.fullmatch(name):
        odd = sorted({character for character in name if not _LEGAL.fullmatch(character)})
        return f"{name!r}: a topic name has ASCII letters, digits, '.', '_' and '-'; not {' '.join(map(repr, odd))}"
    return None


def metric_name(topic: str) -> str:
    """Return the topic's name in metrics, which write both `.` and `_` as `_`. Two topics collide if their names in
    metrics are equal."""
    return topic.replace(".", "_")


def may_collide(topic: str) -> bool:
    """Return whether another name could be equal to this one in metrics."""
    return "." in topic or "_" in topic


def wrong_beside(name: str, other: str) -> str:
    """Return the error for a new topic whose name collides with that of another topic."""
    return f"{name} and {other} would be equal in metrics, which write both '.' and '_' as '_'"
