"""Validate settings when they are created, so that a mistake is reported at once and not hours later."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from attrs import fields

from zab.core.errors import ConfigError


def check_settings(
    settings: object,
    least: Mapping[str, int],
    default: int = 1,
    optional: Mapping[str, type] = MappingProxyType({}),
) -> None:
    """Raise ConfigError unless each field has the type of its default, and each number is large enough.

    The minimum of a number is `least[name]`, else `default`. `optional` maps the fields that may be None to their
    types.
    """
    for attribute in fields(type(settings)):  # type: ignore[arg-type]
        name, value = attribute.name, getattr(settings, attribute.name)
        kind = optional.get(name, type(attribute.default))
        if name in optional and value is None:
            continue
        shown = f" = {value!r}" if attribute.repr else ""
        where = f"{type(settings).__name__}.{name}{shown}"
        if kind is bool:
            if not isinstance(value, bool):
                raise ConfigError(f"{where}: must be True or False")
            continue
        if kind is not int:
            if not isinstance(value, kind):
                raise ConfigError(f"{where}: a value of type {kind.__name__} is required")
            continue
        floor = least.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < floor:
            raise ConfigError(f"{where}: must be a whole number, {floor} or more")


def check_ordered(settings: object, low: str, high: str) -> None:
    least, most = getattr(settings, low), getattr(settings, high)
    if least > most:
        raise ConfigError(f"{type(settings).__name__}.{low} = {least}: at most {high} = {most} is allowed")
