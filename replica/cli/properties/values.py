"""Value types of the broker's configuration that `zab.config.values` lacks."""

from __future__ import annotations

from math import inf
from typing import Any, Final

from kraft_controller.core.configuration.config_keys import BROKER, ConfigError
from zab.config.values import Convert, unbounded_or

_SELECTORS: Final = "org.apache.kafka.common.replica"


def is_rack_aware(value: str) -> bool:
    """Return whether this replica selector lets consumers read from a replica in their rack."""
    known = {"": False, f"{_SELECTORS}.LeaderSelector": False, f"{_SELECTORS}.RackAwareReplicaSelector": True}
    if value not in known:
        raise ValueError(f"{' or '.join(name for name in known if name)}; no other class is available here")
    return known[value]


def idle(value: str) -> float:
    """Return the idle time in seconds; infinity for -1. As in Kafka, it must exceed 100 ms, the default delay of a
    failed login."""
    number = unbounded_or(101)(value)
    return inf if number < 0 else number / 1000


def topic_setting(name: str) -> Convert:
    """Return a converter that checks the value like the dynamic broker setting of this name, and keeps it as text."""
    row = BROKER[name]

    def convert(value: str) -> Any:
        try:
            row.value(value)
        except ConfigError as error:
            raise ValueError(error.wanted) from None
        return value

    return convert
