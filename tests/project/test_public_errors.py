"""Public errors appear in tracebacks under the name by which a program catches them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from importlib import import_module

import pytest

import zab
import zab.recipes
from zab.core.errors import ZabError

HOMES = (
    "zab.core.errors",
    "zab.net.cannot_listen",
    "zab.session.session_errors",
    "zab.client.connection_failures",
    "zab.recipes.recipe_errors",
)


def descendants(kind: type[ZabError]) -> Iterator[type[ZabError]]:
    for each in kind.__subclasses__():
        yield each
        yield from descendants(each)


def test_public_errors_are_importable_by_their_names() -> None:
    for home in HOMES:
        import_module(home)
    for each in descendants(ZabError):
        if each.__module__ in ("zab", "zab.recipes"):
            assert getattr(import_module(each.__module__), each.__name__) is each


@pytest.mark.parametrize("name", ["NoNode", "ConfigError", "PortTaken", "SessionExpired", "Unreachable", "ZabError"])
def test_public_error_presents_itself_as_zab(name: str) -> None:
    error = getattr(zab, name)
    assert f"{error.__module__}.{error.__qualname__}" == f"zab.{name}"
    assert pickle.loads(pickle.dumps(error)) is error


def test_error_of_a_recipe_presents_itself_as_zab_recipes() -> None:
    assert zab.recipes.Lost.__module__ == "zab.recipes"
