"""A dictionary of partitions with an index by topic."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Generic, TypeVar, overload

K = TypeVar("K", bound=tuple[str, int])
V = TypeVar("V")
T = TypeVar("T")


class PartitionTable(dict[K, V], Generic[K, V]):
    """Maps partitions to values, and finds the partitions of one topic without a scan of all entries.

    Only assignment, `del` and `pop` may change it: they also update the index.
    """

    def __init__(self) -> None:
        super().__init__()
        self._by_topic: dict[str, dict[K, V]] = {}
        """The entries of each topic that has any."""

    def of(self, topic: str) -> Collection[K]:
        """Return a topic's partitions, in the order in which they were added."""
        return self._by_topic.get(topic, {}).keys()

    def values_of(self, topic: str) -> Collection[V]:
        """Return the values of a topic's partitions."""
        return self._by_topic.get(topic, {}).values()

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self._by_topic.setdefault(key[0], {})[key] = value

    def __delitem__(self, key: K) -> None:
        super().__delitem__(key)
        entries = self._by_topic[key[0]]
        del entries[key]
        if not entries:
            del self._by_topic[key[0]]

    @overload
    def pop(self, key: K, /) -> V: ...
    @overload
    def pop(self, key: K, default: V, /) -> V: ...
    @overload
    def pop(self, key: K, default: T, /) -> V | T: ...
    def pop(self, key: K, /, *default: Any) -> Any:
        if key not in self and default:
            return default[0]
        value = self[key]
        del self[key]
        return value
