"""The part of a shell that its commands use."""

from __future__ import annotations

from typing import Protocol

from zab.session.api import Session
from zab.session.watch import Watch


class ShellContext(Protocol):
    history: dict[int, str]
    """The last lines, by number. The line that runs is the last one."""
    prints_watches: bool
    """True if events are printed when they arrive."""
    done: bool
    """True if no further line is to be read."""

    @property
    def session(self) -> Session: ...

    @property
    def watch(self) -> Watch:
        """Receives the events of all watches that commands add."""
        ...

    def say(self, *lines: str) -> None: ...

    async def connect(self, servers: str | None) -> None: ...

    async def close(self) -> None: ...

    async def execute(self, line: str) -> None: ...
