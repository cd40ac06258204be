"""Every public name of every package has a docstring: classes, functions, constants, types, methods, attributes.

So each line and each row of the API reference says something.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from textwrap import dedent

import attrs
import pytest

import zab
from scripts.site.api_pages import PACKAGES, attribute_docstrings, groups, summaries
from scripts.site.docstrings import parts

ROOT = Path(__file__).parents[2]
OURS = ("zab", "kraft_controller", "replica", "harness")


def undocumented(package: str) -> Iterator[str]:
    described = summaries(ROOT, package)
    for name in (name for group in groups(ROOT, package) for name in group.names):
        public = getattr(import_module(package), name)
        if name not in described:
            yield name
        if inspect.isclass(public):
            yield from (f"{name}.{part}" for part in [*methods_without(public), *fields_without(public)])


def methods_without(public: type) -> Iterator[str]:
    for part in dir(public):  # inherited ones, too
        method = inspect.getattr_static(public, part)
        function = method.fget if isinstance(method, property) else getattr(method, "__func__", method)
        if part.startswith("_") or not inspect.isfunction(function) or not function.__module__.startswith(OURS):
            continue
        if not inspect.getdoc(method):
            yield part


def fields_without(public: type) -> Iterator[str]:
    """Yield the fields without a docstring, a row in a table of the class's docstring, or a word about them in it."""
    if attrs.has(public):
        fields = [field.name for field in attrs.fields(public)]
    else:
        fields = list(getattr(public, "_fields", ()))
    described: set[str] = set()
    for owner in public.__mro__ if fields else ():
        if owner.__module__ == "builtins":
            continue
        (body,) = ast.parse(dedent(inspect.getsource(owner))).body
        assert isinstance(body, ast.ClassDef)
        described |= attribute_docstrings(body.body).keys()
        for part in parts(inspect.cleandoc(owner.__doc__ or "")):
            if isinstance(part, str):
                described |= {name for name in fields if f"`{name}`" in part}
            else:
                described |= {name for row in part for name in row.full_names(fields)}
    return (name for name in fields if not name.startswith("_") and name not in described)


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_have_docstrings(package: str) -> None:
    assert list(undocumented(package)) == []


def test_field_without_a_word_about_it_is_found() -> None:
    @attrs.frozen
    class Point:
        """A point at `x`.

        y  its height
        """

        x: int
        y: int
        z: int
        """Its depth."""
        colour: str

    assert list(fields_without(Point)) == ["colour"]


def test_store_server_has_only_public_attributes() -> None:
    shown = {name for name in dir(zab.StoreServer) if not name.startswith("_")}
    described = (ROOT / "docs/reference/open-store.md").read_text()
    assert {name for name in shown if f"`store.{name}" not in described} == set()
    assert len(shown) < 12
