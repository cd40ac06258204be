"""The chances of one script: values out of a generator, as `harness.script.kinds` says what they may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Protocol, TypeVar

from harness.script.kinds import Among, Anyone, Groups, Short, Sid, Together, Upto, Value, Who
from harness.script.names import FOLLOWER, LEADER


class Weighted(Protocol):
    @property
    def weight(self) -> float: ...


T = TypeVar("T")
W = TypeVar("W", bound=Weighted)


class Draw:
    def __init__(self, random: Random, voters: int, observers: int) -> None:
        self.random = random
        self.voters = voters
        self.servers = voters + observers

    def upto(self, least: int, most: int) -> int:
        return least + int(self.random.random() * (most - least + 1))

    def short(self, least: int, most: int) -> int:
        """Rather near the least."""
        share = self.random.random()
        return least + int(share * share * share * (most - least + 1))

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def who(self) -> int:
        """Often the leader: that is where things happen."""
        share = self.random.random()
        if share < 0.35:
            return LEADER
        if share < 0.5:
            return FOLLOWER
        return self.upto(1, self.servers)

    def server(self) -> int:
        return self.upto(1, self.servers)

    def among(self, values: Sequence[T]) -> T:
        return values[self.upto(0, len(values) - 1)]

    def weighted(self, kinds: Sequence[W]) -> W:
        left = self.random.random() * sum(kind.weight for kind in kinds)
        for kind in kinds:
            left -= kind.weight
            if left <= 0:
                return kind
        return kinds[-1]

    def value(self, value: Value) -> Any:
        match value:
            case Upto(least, most):
                return self.upto(least, most)
            case Short(least, most):
                return self.short(least, most)
            case Among(values):
                return self.among(values)
            case Who():
                return self.who()
            case Sid():
                return self.upto(1, self.servers)
            case Anyone():
                return None if self.chance(0.7) else self.who()
            case Groups():
                return self.groups()
            case Together(options):
                return self.fields(self.among(options))

    def fields(self, fields: Mapping[str, Value]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, value in fields.items():
            drawn = self.value(value)
            made.update(drawn if isinstance(value, Together) else {name: drawn})
        return apart(made, self.servers)

    def groups(self) -> tuple[tuple[int, ...], ...]:
        ids = list(range(1, self.servers + 1))
        self.random.shuffle(ids)
        cut = self.upto(1, len(ids) - 1) if len(ids) > 1 else 1
        one, other = ids[:cut], ids[cut:]
        if self.chance(0.2):
            other = [*other, one[0]]  # one server is a bridge: it hears both sides
        return tuple(sorted(one)), tuple(sorted(other))


def apart(fields: dict[str, Any], servers: int) -> dict[str, Any]:
    """A fault between two servers is not one between a server and itself."""
    target = fields.get("target")
    if target is not None and target == fields.get("source"):
        return fields | {"target": target % servers + 1}
    return fields
