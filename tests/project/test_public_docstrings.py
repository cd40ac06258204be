"""Every public name of `zab`, `zab.recipes`, `zab.testing` and `replica.testing` has a docstring, methods included."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

import replica.testing
import zab
import zab.recipes
import zab.testing

OURS = ("zab", "replica")


def undocumented(package: object) -> Iterator[str]:
    for name in sorted(dir(package)):
        public = getattr(package, name)
        if name.startswith("_") or not getattr(public, "__module__", "").startswith(OURS):
            continue
        if (inspect.isclass(public) or inspect.isfunction(public)) and not public.__doc__:
            yield name
        if not inspect.isclass(public):
            continue
        for part in dir(public):  # inherited ones, too
            method = inspect.getattr_static(public, part)
            function = method.fget if isinstance(method, property) else getattr(method, "__func__", method)
            if part.startswith("_") or not inspect.isfunction(function) or not function.__module__.startswith(OURS):
                continue
            if not inspect.getdoc(method):
                yield f"{name}.{part}"


@pytest.mark.parametrize("package", [zab, zab.recipes, zab.testing, replica.testing])
def test_public_names_have_docstrings(package: object) -> None:
    assert list(undocumented(package)) == []


def test_store_server_has_only_public_attributes() -> None:
    shown = {name for name in dir(zab.StoreServer) if not name.startswith("_")}
    described = (Path(__file__).parents[2] / "docs/reference/open-store.md").read_text()
    assert {name for name in shown if f"`store.{name}" not in described} == set()
    assert len(shown) < 12
