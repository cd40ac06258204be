"""The rules for paths.

The path of an existing node is valid. So frequent operations look up the node first, and validate the path only if
there is no such node. Below an existing parent, only the last component has to be validated.
"""

from __future__ import annotations

import re
from typing import Final

ROOT: Final = "/"
SYSTEM: Final = "/zookeeper"
QUOTA: Final = "/zookeeper/quota"
CONFIG: Final = "/zookeeper/config"

UNDELETABLE: Final = frozenset({ROOT, SYSTEM, QUOTA, CONFIG})

_FORBIDDEN: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]")
"""Matches control characters, surrogates, private use, specials, and all characters beyond U+FFFF."""


def name_is_valid(name: str) -> bool:
    """Return whether a name without a slash is valid as one component of a path."""
    if name.isascii() and name.isprintable():
        return name not in ("", ".", "..")
    return not _FORBIDDEN.search(name)


def is_valid(path: str) -> bool:
    if path == ROOT:
        return True
    first, *names = path.split("/")
    return not first and bool(names) and all(map(name_is_valid, names))


def why_invalid(path: str) -> str:
    """Return why the path is invalid, or an empty string if it is valid."""
    if is_valid(path):
        return ""
    if not path.startswith("/"):
        return "a path must begin with /"
    if path.endswith("/"):
        return "a path must not end with /"
    for name in path.split("/")[1:]:
        if not name:
            return "a name between two / is empty"
        if name in (".", ".."):
            return f"{name} is not a valid name"
        if not name_is_valid(name):
            return f"{name!r} contains an invalid character"
    raise AssertionError(path)


def parent_of(path: str) -> str:
    """Return the parent of a path other than the root."""
    return path[: path.rindex("/")] or ROOT


def child_of(parent: str, name: str) -> str:
    return f"/{name}" if parent == ROOT else f"{parent}/{name}"


def ancestors_of(path: str) -> list[str]:
    """Return the ancestors, from the parent up to the root."""
    found = []
    while path != ROOT:
        path = parent_of(path)
        found.append(path)
    return found
