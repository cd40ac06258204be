"""Replication throttles of one broker (KIP-73): the throttled replicas and the rates."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from kraft_controller.core.configuration.config_keys import DEFAULT, LONG_MAX, read_throttled
from kraft_controller.core.names import BrokerId, TopicPartition, decimal

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"

All = None
"""The value that stands for all partitions of a topic."""


class Throttles:
    """The replication throttles, from the dynamic configurations of topics and brokers."""

    def __init__(self, me: BrokerId) -> None:
        self._me = me
        self._rates: dict[str, Mapping[str, str]] = {}
        """The dynamic configurations that may set rates: that of this broker, and the default for all brokers."""
        self._leading: dict[str, frozenset[int] | None] = {}
        """The partitions that followers outside the ISR fetch at a limited rate while this broker leads, by topic."""
        self._following: dict[str, frozenset[int] | None] = {}
        """The partitions that this broker fetches at a limited rate while it follows, by topic."""

    def configure(self, entity: str, values: Mapping[str, str]) -> bool:
        """Apply the configuration of an entity. Return whether the throttled replicas of this broker have changed, or
        the rates may have changed."""
        kind, _, name = entity.partition("/")
        if kind == "brokers" and name in (str(self._me), DEFAULT):
            self._rates[name] = dict(values)
            return True
        if kind != "topics":
            return False
        changed = False
        for replicas, key in ((self._leading, LEADER_REPLICAS), (self._following, FOLLOWER_REPLICAS)):
            text = values.get(key, "")
            pairs = read_throttled(text)
            mine = All if pairs is None else frozenset(partition for partition, broker in pairs if broker == self._me)
            if mine is not All and not mine:
                changed |= name in replicas
                replicas.pop(name, None)
            elif name not in replicas or replicas[name] != mine:
                changed = True
                replicas[name] = mine
        return changed

    @property
    def led_topics(self) -> Collection[str]:
        """The topics with throttled replicas while this broker leads them."""
        return self._leading.keys()

    @property
    def followed_topics(self) -> Collection[str]:
        """The topics with throttled replicas while this broker follows."""
        return self._following.keys()

    def leader_rate(self) -> int | None:
        """Return the total bytes a second that followers outside the ISR may fetch of throttled partitions; None:
        unlimited."""
        return self._rate(LEADER_RATE)

    def follower_rate(self) -> int | None:
        """Return the total bytes a second that this broker may fetch of throttled partitions; None: unlimited."""
        return self._rate(FOLLOWER_RATE)

    def slows_leader(self, where: TopicPartition) -> bool:
        """Return whether the rate limits fetches from this broker as the leader of the partition."""
        return _among(self._leading, where)

    def slows_follower(self, where: TopicPartition) -> bool:
        """Return whether the rate limits fetches by this broker as a follower of the partition."""
        return _among(self._following, where)

    def _rate(self, key: str) -> int | None:
        for name in (str(self._me), DEFAULT):
            rate = decimal(self._rates.get(name, {}).get(key, "").strip(), LONG_MAX)
            if rate is not None:
                return rate
        return None


def _among(replicas: Mapping[str, frozenset[int] | None], where: TopicPartition) -> bool:
    if where.topic not in replicas:
        return False
    mine = replicas[where.topic]
    return mine is All or where.partition in mine
