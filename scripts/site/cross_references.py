"""Turn names in backticks into links to the API reference."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

from scripts.site.api_pages import PACKAGES, groups

_ROOT: Final = Path(__file__).parents[2]
_CODE: Final = re.compile(r"^#.*|\[[^\]]*\](?:\([^)]*\)|\[[^\]]*\])|`([A-Za-z_][\w.]*)(?:\([^`\n]*\))?`", re.MULTILINE)


def refer(text: str, package: str = "") -> str:
    """Link each public name in the text to its place in the reference.

    A name without a package belongs to `package`. Headings and links stay as they are. The generator drops a link to a
    member that the reference does not show.
    """

    def replace(match: re.Match[str]) -> str:
        target = _target(match[1], package) if match[1] else ""
        return f'<autoref identifier="{target}" optional>{match[0]}</autoref>' if target else match[0]

    return _CODE.sub(replace, text)


def anchor_of(package: str) -> str:
    """Return the anchor of a package's page. Its name alone is the anchor of other headings."""
    return f"package-{package}"


def _target(name: str, package: str) -> str:
    if name in PACKAGES:
        return anchor_of(name)
    for each in sorted(PACKAGES, key=len, reverse=True):
        if name.startswith(f"{each}."):
            return name if name.removeprefix(f"{each}.").split(".")[0] in _public(each) else ""
    return f"{package}.{name}" if package and name.split(".")[0] in _public(package) else ""


@cache
def _public(package: str) -> frozenset[str]:
    return frozenset(name for group in groups(_ROOT, package) for name in group.names)
