"""The software of a server, from the version that it reports: Apache ZooKeeper or zab."""

from __future__ import annotations

import re
from typing import Final

from attrs import frozen

from zab.runtime.admin.report import MARK

ZAB: Final = "zab"
ZOOKEEPER: Final = "ZooKeeper"
_NUMBERS: Final = re.compile(r"\d+(?:\.\d+)*")


@frozen
class Software:
    """A program and its release. `release` is empty if the server does not report it."""

    name: str
    release: str = ""

    @property
    def is_ours(self) -> bool:
        return self.name == ZAB

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the release: (3, 9, 5) for ZooKeeper 3.9.5."""
        return tuple(map(int, self.release.split("."))) if self.release else ()

    def __str__(self) -> str:
        return f"{self.name} {self.release}".rstrip()


def software_of(version: str) -> Software | None:
    """Return the software that reports this version; None if the text has no version.

    ZooKeeper reports `3.9.5-HASH, built on DATE`. A server of zab reports the version of ZooKeeper that it emulates and
    its own: `3.9.5-zab-1.0.0, built on DATE`.
    """
    emulated, mark, own = version.partition(",")[0].partition(MARK)
    if mark:
        found = _NUMBERS.search(own)
        return Software(ZAB, found[0] if found else "")
    found = _NUMBERS.match(emulated.strip())
    return Software(ZOOKEEPER, found[0]) if found else None
