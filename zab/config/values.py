"""Converters from the text of a configuration value to the value.

A converter raises `ValueError` with a description of valid values, as in "a whole number, 1 or more", or its subclass
`Adjusted`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

Convert: TypeAlias = Callable[[str], Any]

SHORT_MAX: Final = (1 << 15) - 1
INT_MAX: Final = (1 << 31) - 1
LONG_MAX: Final = (1 << 63) - 1
NO_LIMIT: Final = 1 << 30
"""The value of a limit that is switched off."""
_WHOLE: Final = re.compile(r"[+-]?[0-9]+")


class Adjusted(ValueError):
    """The value is accepted, as by ZooKeeper or Kafka, but `counts` is used in its place. The text is a warning."""

    def __init__(self, counts: object, why: str) -> None:
        super().__init__(why)
        self.counts = counts


def text(value: str) -> str:
    return value


def optional(value: str) -> str | None:
    """Return None for an empty value: templates leave keys empty that they do not set."""
    return value or None


def names(value: str) -> frozenset[str]:
    """Return the names in a comma-separated list."""
    return frozenset(each.strip() for each in value.split(",") if each.strip())


# -- numbers -------------------------------------------------------------------------------------------


def whole(least: int = 0, most: int = INT_MAX) -> Callable[[str], int]:
    def convert(value: str) -> int:
        number = least - 1
        if _WHOLE.fullmatch(value.strip()):  # `int` would accept 1_000, and digits of any script
            number = int(value) if len(value) < 40 else most + 1
        if not least <= number <= most:
            upwards = most in (INT_MAX, LONG_MAX) and number < least
            raise ValueError(
                f"a whole number, {least} or more" if upwards else f"a whole number from {least} to {most}"
            )
        return number

    return convert


any_int: Final = whole(-INT_MAX - 1)
any_long: Final = whole(-LONG_MAX - 1, LONG_MAX)


def clamped(least: int) -> Callable[[str], int]:
    """Make a converter of whole numbers. For a smaller number than `least` it raises `Adjusted` with `least`."""

    def convert(value: str) -> int:
        try:
            number: int = any_int(value)
        except ValueError:
            return whole(least)(value)  # raises, too
        if number < least:
            raise Adjusted(least, f"the minimum is {least}, which is used")
        return number

    return convert


def unbounded_or(least: int, most: int = LONG_MAX) -> Callable[[str], int]:
    """Make a converter that accepts the numbers from `least` to `most`, and -1, which means no limit."""

    def convert(value: str) -> int:
        try:
            number = whole(-1, most)(value)
        except ValueError:
            number = -2
        if number != -1 and number < least:
            too_large = number == -2 and value.strip().lstrip("+").isdecimal()
            allowed = f" from {least} to {most}" if too_large else f", {least} or more"
            raise ValueError(f"a whole number{allowed}, or -1")
        return number

    return convert


def or_no_limit(value: str) -> int:
    """Return the number, or `NO_LIMIT` for 0 and -1."""
    return max(0, whole(-1)(value)) or NO_LIMIT


def or_default(value: str) -> int | None:
    """Return the number, or None for 0 and less, which stands for the default."""
    try:
        number: int = any_long(value)
    except ValueError:
        too_large = value.strip().lstrip("+").isdecimal()
        limit = f" of at most {LONG_MAX}" if too_large else ""
        raise ValueError(f"a whole number{limit}; 0 or less: the default") from None
    return None if number <= 0 else number


def one_more(value: str) -> int:
    return whole()(value) + 1


def port(value: str) -> int:
    return whole(1, 65535)(value)


def kibibytes(value: str) -> int:
    return whole(1)(value) * 1024


def decimal(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ValueError("a number") from None


def fraction(value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise ValueError("a number from 0 to 1")
    return number


# -- times ---------------------------------------------------------------------------------------------


def in_ms(unit_ms: int = 1, *, unbounded: bool = False, least: int = 1, most: int = INT_MAX) -> Callable[[str], int]:
    """Make a converter of a number of units to milliseconds. `unbounded`: -1 is accepted and kept, for no limit."""
    read = unbounded_or(least, most) if unbounded else whole(least, most)

    def convert(value: str) -> int:
        number = read(value)
        return number if number < 0 else number * unit_ms

    return convert


def seconds_of_ms(least: int = 0, most: int = INT_MAX) -> Callable[[str], float]:
    return lambda value: whole(least, most)(value) / 1000


def seconds(least: int = 0, most: int = INT_MAX) -> Callable[[str], float]:
    return lambda value: float(whole(least, most)(value))


# -- keywords ------------------------------------------------------------------------------------------


def flag(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return value.lower() == "true"


def flag_or_yes_no(value: str) -> bool:
    """Accept yes and no as well, as ZooKeeper does."""
    found = {"true": True, "yes": True, "false": False, "no": False}.get(value.lower())
    if found is None:
        raise ValueError("true or false")
    return found


def one_of(*allowed: str) -> Callable[[str], str]:
    def convert(value: str) -> str:
        if value not in allowed:
            raise ValueError(f"one of {', '.join(allowed)}")
        return value

    return convert


def one_of_in_any_case(*allowed: str) -> Callable[[str], str]:
    def convert(value: str) -> str:
        if value.lower() not in allowed:
            raise ValueError(f"one of {', '.join(allowed)}")
        return value.lower()

    return convert
