"""Pages of the API reference: the public names of each package, in the groups of its `__all__`.

A comment in `__all__` begins a group, which gets a page of its own. mkdocstrings replaces a line `::: package.name` by
the signature and the docstring.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from scripts.site.docstrings import markdown
from scripts.site.navigation import Entry

PACKAGES: Final = (
    "zab",
    "zab.recipes",
    "zab.testing",
    "kraft_controller",
    "replica",
    "replica.testing",
    "harness",
)
"""The packages in the reference. Another package needs a line here, and nothing else."""

FOLDER: Final = "reference/api"


@dataclass(frozen=True)
class Group:
    """Public names that belong together. The title is empty if the package has no groups."""

    title: str
    names: tuple[str, ...]


def source_of(root: Path, module: str) -> Path:
    path = root.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def groups(root: Path, package: str) -> list[Group]:
    """Return the names in `__all__` by group; none if the package exports nothing."""
    text = source_of(root, package).read_text()
    lists = [
        node.value
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    if not lists:
        return []
    found: list[Group] = []
    for line in (ast.get_source_segment(text, lists[0]) or "").splitlines():
        comment = re.match(r"\s*# (.+)", line)
        if comment:
            found.append(Group(comment[1][:1].upper() + comment[1][1:], ()))
        elif names := tuple(re.findall(r'"(\w+)"', line)):
            last = found.pop() if found else Group("", ())
            found.append(Group(last.title, last.names + names))
    return found


def summaries(root: Path, package: str) -> dict[str, str]:
    """Return the first line of the docstring of every public name that has one."""
    return {
        name: re.split(r"\n\s*\n", docstring)[0].replace("\n", " ")
        for group in groups(root, package)
        for name in group.names
        if (docstring := docstring_of(root, package, name))
    }


def docstring_of(root: Path, module: str, name: str) -> str | None:
    """Return the docstring of a class, function, constant or type. An imported name has that of its home."""
    tree = ast.parse(source_of(root, module).read_text())
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            return ast.get_docstring(node)
    for imported in ast.walk(tree):  # also below `if TYPE_CHECKING`
        if isinstance(imported, ast.ImportFrom) and imported.module:
            for alias in imported.names:
                if name == (alias.asname or alias.name):
                    return docstring_of(root, imported.module, alias.name)
    return attribute_docstrings(tree.body).get(name)


def attribute_docstrings(body: list[ast.stmt]) -> dict[str, str]:
    """Return the docstrings of the attributes that the body of a module or class assigns or declares."""
    return {
        ast.unparse(node.target if isinstance(node, ast.AnnAssign) else node.targets[0]): str(below.value.value)
        for node, below in pairwise(body)
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
    }


def api_pages(root: Path) -> tuple[dict[str, str], list[Entry]]:
    """Return the pages by their paths on the site, and their part of the navigation."""
    pages: dict[str, str] = {}
    entries: list[Entry] = []
    for package in PACKAGES:
        docstring = ast.get_docstring(ast.parse(source_of(root, package).read_text())) or ""
        index = [f"# {package} {{#package-{package}}}", markdown(docstring)]
        first_lines = summaries(root, package)
        home = f"{FOLDER}/{package}/index.md"
        below: list[Entry] = [home]
        for group in groups(root, package):
            blocks = [f"::: {package}.{name}" for name in group.names]
            if not group.title:
                index += blocks
                continue
            path = f"{FOLDER}/{package}/{re.sub(r'[^a-z]+', '-', group.title.lower()).strip('-')}.md"
            pages[path] = "\n\n".join([f"# {group.title}", f"In the package `{package}`.", *blocks]) + "\n"
            lines = [
                f"- [`{name}`][{package}.{name}]" + (f": {first_lines[name]}" if name in first_lines else "")
                for name in group.names
            ]
            index += [f"## {group.title}", "\n".join(lines)]
            below.append({group.title: path})
        pages[home] = "\n\n".join(index) + "\n"
        entries.append({package: below})
    return pages, entries
