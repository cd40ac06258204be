"""From the text behind a key to a value. What is wrong is a `ValueError` that says what would be right, as in "a whole
number, 1 or more"."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, Final

from kraft_controller.core.configs import BROKER, ConfigError
from zab.cli.zoo.values import INT_MAX, whole

Convert = Callable[[str], Any]

SHORT_MAX: Final = (1 << 15) - 1
LONG_MAX: Final = (1 << 63) - 1
_SELECTORS: Final = "org.apache.kafka.common.replica"

__all__ = ["INT_MAX", "LONG_MAX", "SHORT_MAX", "Convert", "whole"]


def optional(value: str) -> str | None:
    """Left empty, as templates do, it says nothing."""
    return value or None


any_int: Final = whole(-INT_MAX - 1)
any_long: Final = whole(-LONG_MAX - 1, LONG_MAX)


def names(value: str) -> frozenset[str]:
    """Return those between the commas."""
    return frozenset(each.strip() for each in value.split(",") if each.strip())


def decimal(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ValueError("a number") from None


def is_rack_aware(value: str) -> bool:
    """Who says from which replica a consumer reads."""
    known = {"": False, f"{_SELECTORS}.LeaderSelector": False, f"{_SELECTORS}.RackAwareReplicaSelector": True}
    if value not in known:
        raise ValueError(f"{' or '.join(name for name in known if name)}; there is no other one here")
    return known[value]


def flag(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return value.lower() == "true"


def one_of(*known: str) -> Convert:
    def convert(value: str) -> str:
        if value not in known:
            raise ValueError(f"one of {', '.join(known)}")
        return value

    return convert


def unbounded_or(least: int, most: int = LONG_MAX) -> Convert:
    """-1 is a value of its own."""

    def convert(value: str) -> int:
        try:
            number = whole(-1, most)(value)
        except ValueError:
            number = -2
        if number != -1 and number < least:
            raise ValueError(f"a whole number, {least} or more, or -1")
        return number

    return convert


def bounded(value: str) -> int | None:
    """None, for what is said with 0 or less: as large as it is here when nothing is said."""
    try:
        number: int = any_long(value)
    except ValueError:
        raise ValueError("a whole number; 0 or less: as many as by default") from None
    return None if number <= 0 else number


def idle(value: str) -> float:
    """More than the 100 ms for which Kafka's broker keeps who was not believed waiting."""
    number: int = unbounded_or(101)(value)
    return inf if number < 0 else number / 1000


def in_ms(unit_ms: int = 1, *, unbounded: bool = False, least: int = 1, most: int = INT_MAX) -> Convert:
    """A time; `unbounded`: -1 is for ever, and no other negative number is anything."""
    read = unbounded_or(least, most) if unbounded else whole(least, most)

    def convert(value: str) -> int:
        number: int = read(value)
        return number if number < 0 else number * unit_ms

    return convert


def seconds_of_ms(least: int = 0, most: int = INT_MAX) -> Convert:
    return lambda value: whole(least, most)(value) / 1000


def seconds(least: int = 0, most: int = INT_MAX) -> Convert:
    return lambda value: float(whole(least, most)(value))


def one_more(value: str) -> int:
    return whole()(value) + 1


def of_topics(name: str) -> Convert:
    """As it may also be configured while everything runs: the table of that knows what is right."""
    row = BROKER[name]

    def convert(value: str) -> str:
        try:
            row.value(value)
        except ConfigError as error:
            raise ValueError(str(error).partition(f"{name}={value.strip()}: ")[2].removeprefix("it is ")) from None
        return value

    return convert
