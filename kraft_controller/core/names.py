"""The words that everything here is said in: who is who, and what may be called how."""

from __future__ import annotations

import re
from typing import Final, NamedTuple, NewType

BrokerId = NewType("BrokerId", int)
ControllerEpoch = NewType("ControllerEpoch", int)
"""Counts controllers: each election makes the next one, and brokers obey none that is older than one they know."""
BrokerEpoch = NewType("BrokerEpoch", int)
"""The zxid that created a broker's registration, so another one for each of its lives."""
LeaderEpoch = NewType("LeaderEpoch", int)
"""Counts what controllers decided about one partition."""
Version = NewType("Version", int)
"""A node's data version in the store. That of a partition's state node is called its partition epoch."""
TopicId = NewType("TopicId", str)
"""22 characters of base64; another one for each topic that ever had a name."""

NOBODY: Final = BrokerId(-1)
"""Leads a partition that nobody leads."""
DELETED: Final = BrokerId(-2)
"""Leads a partition that is being deleted, in what brokers are told: forget it."""

NAME_MAX: Final = 249
INTERNAL: Final = ("__consumer_offsets", "__transaction_state")
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")
_DIGITS: Final = re.compile(r"[0-9]{1,19}")


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def decimal(text: str, most: int = (1 << 31) - 1) -> int | None:
    """Return the number that the digits of `text` write; None if there are other characters or it exceeds `most`.

    Nodes of the store and values of configurations may hold anything: `int` raises for more than 4,300 digits.
    """
    if not _DIGITS.fullmatch(text):
        return None
    number = int(text)
    return number if number <= most else None


def wrong_with_name(name: str) -> str | None:
    """Why no topic may be called so; None if one may."""
    if not name:
        return "a topic's name is not empty"
    if name in (".", ".."):
        return f"{name!r} is no name for a topic: it would be a folder of that name"
    if len(name) > NAME_MAX:
        return f"a topic's name has at most {NAME_MAX} characters; this one has {len(name)}"
    if not _LEGAL.fullmatch(name):
        odd = sorted({character for character in name if not _LEGAL.fullmatch(character)})
        return f"{name!r}: a topic's name has letters, digits, '.', '_' and '-'; not {' '.join(map(repr, odd))}"
    return None


def collides(one: str, other: str) -> bool:
    """Metrics write both `.` and `_` as `_`, so two names that differ only there would be one."""
    return one != other and metric_name(one) == metric_name(other)


def metric_name(topic: str) -> str:
    return topic.replace(".", "_")


def wrong_beside(name: str, other: str) -> str:
    """Of two names that collide: why there is no topic of the one beside one of the other."""
    return f"{name} and {other} would be one in metrics, where both '.' and '_' are written '_'"
