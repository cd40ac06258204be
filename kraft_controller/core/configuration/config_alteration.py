"""Alterations of a configuration, by key or as a whole. An invalid alteration raises `ConfigError`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import IntEnum
from typing import TypeAlias

from attrs import frozen

from kraft_controller.core.configuration.config_keys import ConfigError, check, check_together, key_of

Values: TypeAlias = Mapping[str, str]
Change: TypeAlias = Callable[[Values], dict[str, str]]
"""Takes the current configuration, and returns the altered one."""


class Operation(IntEnum):
    """The operations of IncrementalAlterConfigs (KIP-339), as Kafka numbers them."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@frozen
class Alteration:
    key: str
    operation: Operation
    text: str | None = None
    """The value to set, or the items to append to or remove from a list. DELETE ignores it."""


def put(kind: str, values: Values, remove: Collection[str] = ()) -> Change:
    """Return a change that removes the keys in `remove`, sets those in `values`, and keeps the others."""

    def change(before: Values) -> dict[str, str]:
        return {name: text for name, text in before.items() if name not in remove} | dict(values)

    check(kind, values)
    return _checked(kind, change)


def replaced(kind: str, values: Mapping[str, str | None]) -> Change:
    """Return a change that replaces the whole configuration."""
    given = {key: _present(key, text) for key, text in values.items()}
    check(kind, given)
    return _checked(kind, lambda before: dict(given))


def altered(kind: str, alterations: Iterable[Alteration], usual: Values) -> Change:
    """Return a change that applies each alteration to its key. APPEND and SUBTRACT of a list that is not set start from
    its value in `usual`."""
    listed = list(alterations)
    twice = sorted(key for key, count in Counter(one.key for one in listed).items() if count > 1)
    if twice:
        raise ConfigError(f"{', '.join(twice)}: altered more than once in the request")

    def change(before: Values) -> dict[str, str]:
        after = dict(before)
        for one in listed:
            if one.operation is Operation.DELETE:
                after.pop(one.key, None)
                continue
            text = _present(one.key, one.text)
            if one.operation is not Operation.SET:
                text = _listed(kind, one, text, after.get(one.key, usual.get(one.key, "")))
            check(kind, {one.key: text})
            after[one.key] = text
        return after

    return _checked(kind, change)


def _listed(kind: str, one: Alteration, text: str, held: str) -> str:
    if key_of(kind, one.key).kind != "list":
        raise ConfigError(f"{one.key} is not a list: APPEND and SUBTRACT do not apply")
    named = _words(text)
    left = [word for word in _words(held) if word not in named]
    return ",".join(left + named if one.operation is Operation.APPEND else left)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _checked(kind: str, change: Change) -> Change:
    def checked(before: Values) -> dict[str, str]:
        after = change(before)
        if after != before:
            check_together(kind, after)
        return after

    return checked


def _present(key: str, text: str | None) -> str:
    if text is None:
        raise ConfigError(f"{key} has no value")
    return text
