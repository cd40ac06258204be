"""The values that a generator may choose for a field, and the random source of a generator.

A field of a fault, an operation or a setting declares its values with `drawn`. The values suit runs of a few seconds; a
script that is written by hand may contain any valid value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final, TypeAlias, TypeVar

import attrs
from attrs import frozen

from harness.script.names import FOLLOWER, LEADER


@frozen
class Upto:
    """Any number from the least to the most."""

    least: int
    most: int


@frozen
class Short:
    """A number from the least to the most, usually near the least."""

    least: int
    most: int


@frozen
class Scale:
    """A number with a random order of magnitude: as often from 1 to 2 as from 8 to 16."""

    least: int
    most: int


@frozen
class Among:
    """One of these values. A value that is listed twice is chosen twice as often."""

    values: tuple[str | int, ...]


@frozen
class Who:
    """A server, often the leader, because most situations begin there."""


@frozen
class Sid:
    """A server by its number."""


@frozen
class Anyone:
    """A server or, mostly, None for any server."""


@frozen
class Groups:
    """Two groups of a partition, now and then with a bridge between them."""


@frozen
class Together:
    """Several fields whose values belong together: one of these options gives all."""

    options: tuple[Mapping[str, Value], ...]


Value: TypeAlias = Upto | Short | Scale | Among | Who | Sid | Anyone | Groups | Together

LASTING: Final = Short(10, 1_500)
DOWN: Final = Short(1, 900)


def drawn(default: Any, value: Value) -> Any:
    """Declare a field of an attrs class with this default, for which generators draw the value."""
    return attrs.field(default=default, metadata={"value": value})


def fields_of(kind: type) -> Mapping[str, Value]:
    """Return the values of all fields that are declared with `drawn`, in their order."""
    return {each.name: each.metadata["value"] for each in attrs.fields(kind) if "value" in each.metadata}


@frozen
class Kind:
    """A kind of fault, operation or step, and the values of its fields."""

    weight: float
    """The weight of the kind in a random choice."""
    make: Callable[..., Any]
    fields: Mapping[str, Value]


def kinds(weights: Mapping[type[Any], float]) -> tuple[Kind, ...]:
    return tuple(Kind(weight, make, fields_of(make)) for make, weight in weights.items())


T = TypeVar("T")


class Draw:
    """Choose values with one generator of random numbers."""

    def __init__(self, random: Random, voters: int, observers: int) -> None:
        self.random = random
        self.voters = voters
        self.servers = voters + observers

    def upto(self, least: int, most: int) -> int:
        return least + int(self.random.random() * (most - least + 1))

    def short(self, least: int, most: int) -> int:
        share = self.random.random()
        return least + int(share * share * share * (most - least + 1))

    def scale(self, least: int, most: int) -> int:
        return int(least * ((most + 1) / least) ** self.random.random())

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def among(self, values: Sequence[T]) -> T:
        return values[self.upto(0, len(values) - 1)]

    def server(self) -> int:
        return self.upto(1, self.servers)

    def who(self) -> int:
        share = self.random.random()
        if share < 0.35:
            return LEADER
        return FOLLOWER if share < 0.5 else self.server()

    def groups(self) -> tuple[tuple[int, ...], ...]:
        ids = list(range(1, self.servers + 1))
        self.random.shuffle(ids)
        cut = self.upto(1, len(ids) - 1) if len(ids) > 1 else 1
        one, other = ids[:cut], ids[cut:]
        if self.chance(0.2):
            other = [*other, one[0]]  # a bridge
        return tuple(sorted(one)), tuple(sorted(other))

    def value(self, value: Value) -> Any:
        match value:
            case Upto(least, most):
                return self.upto(least, most)
            case Short(least, most):
                return self.short(least, most)
            case Scale(least, most):
                return self.scale(least, most)
            case Among(values):
                return self.among(values)
            case Who():
                return self.who()
            case Sid():
                return self.server()
            case Anyone():
                return None if self.chance(0.7) else self.who()
            case Groups():
                return self.groups()
            case Together(options):
                return self.fields(self.among(options))

    def fields(self, fields: Mapping[str, Value]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, value in fields.items():
            found = self.value(value)
            made.update(found if isinstance(value, Together) else {name: found})
        return apart(made, self.servers)

    def varied(self, kind: Kind) -> Kind:
        """Return the kind with another weight."""
        return attrs.evolve(kind, weight=kind.weight * (0.3 + self.random.random()))

    def one_of(self, kinds: Sequence[Kind], **given: Any) -> Any:
        """Return an item of one of the kinds, chosen by weight."""
        left = self.random.random() * sum(kind.weight for kind in kinds)
        chosen = kinds[-1]
        for kind in kinds:
            left -= kind.weight
            if left <= 0:
                chosen = kind
                break
        return chosen.make(**given, **self.fields(chosen.fields))


def apart(fields: dict[str, Any], servers: int) -> dict[str, Any]:
    """Replace the target of a fault between two servers if it is the source, too."""
    target = fields.get("target")
    if target is not None and target == fields.get("source"):
        return fields | {"target": target % servers + 1}
    return fields
