"""From the text behind a key to a value. What is wrong is a `ValueError` that says what would be right."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

Convert: TypeAlias = Callable[[str], object]

INT_MAX: Final = (1 << 31) - 1
LONG_MAX: Final = (1 << 63) - 1
_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
NO_LIMIT: Final = 1 << 30
"""In place of a limit that is switched off."""


class Unusual(ValueError):
    """Not refused, because the original starts with it, too; but what counts instead is said."""

    def __init__(self, counts: object, why: str) -> None:
        super().__init__(why)
        self.counts = counts


def text(value: str) -> object:
    return value


def whole(least: int = 0, most: int = INT_MAX) -> Callable[[str], int]:
    def convert(value: str) -> int:
        number = least - 1
        if _WHOLE.fullmatch(value.strip()):  # `int` would take 1_000, and digits of any script
            number = int(value) if len(value) < 40 else most + 1
        if not least <= number <= most:
            upwards = most in (INT_MAX, LONG_MAX) and number < least
            raise ValueError(
                f"a whole number, {least} or more" if upwards else f"a whole number from {least} to {most}"
            )
        return number

    return convert


def clamped(least: int) -> Callable[[str], int]:
    """What is less is taken for the least, as it is there."""

    def convert(value: str) -> int:
        try:
            number = int(value)
        except ValueError:
            raise ValueError(f"a whole number, {least} or more") from None
        if number < least:
            raise Unusual(least, f"{least} is the least, and counts")
        return whole(least)(value)

    return convert


def port(value: str) -> object:
    return whole(1, 65535)(value)


def kibibytes(value: str) -> object:
    return whole(1)(value) * 1024


def fraction(value: str) -> object:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise ValueError("a number from 0 to 1")
    return number


def or_no_limit(value: str) -> object:
    """0 and less switch it off."""
    return max(0, whole(-1)(value)) or NO_LIMIT


def flag(value: str) -> object:
    """Both spellings that the original uses, for each of its flags."""
    told = {"true": True, "yes": True, "false": False, "no": False}.get(value.lower())
    if told is None:
        raise ValueError("true or false")
    return told


def one_of(*allowed: str) -> Convert:
    def convert(value: str) -> object:
        if value.lower() not in allowed:
            raise ValueError(f"one of {', '.join(allowed)}")
        return value.lower()

    return convert


def digest_algorithm(value: str) -> object:
    """Java writes SHA-256 where Python writes sha256."""
    name = value.lower().replace("-", "", 1)
    if name not in ("sha1", "sha224", "sha256", "sha384", "sha512", "md5"):
        raise ValueError("one of SHA1, SHA-224, SHA-256, SHA-384, SHA-512, MD5")
    return name


def super_digest(value: str) -> object:
    user, colon, digest = value.partition(":")
    if not user or not colon or not digest or ":" in digest:
        raise ValueError("user:base64-of-the-hash-of-user:password")
    return value


def list_of(value: str) -> object:
    return frozenset(each.strip() for each in value.split(",") if each.strip())
