"""What the JSON form of a script meant, version by version. A script of another version means something else."""

from __future__ import annotations

from typing import Final

CHANGES: Final[dict[int, str]] = {
    1: "the first",
    2: "clocks, disks that go back or lie, shapes of partitions, restarts, mixed settings; two more moments",
}
"""By version: what came with it."""

VERSION: Final = max(CHANGES)


def refusal(found: object) -> str:
    """Why a script of that version is not read, and what can be done about it."""
    if type(found) is int and found in CHANGES:
        since = "; ".join(f"{version}: {CHANGES[version]}" for version in CHANGES if version > found)
        return f"expected {VERSION}, not {found}. What changed since ({since}). If none of it matters, write {VERSION}"
    return f"expected {VERSION}, not {found!r}"
