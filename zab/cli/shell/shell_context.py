"""The view that a shell command has of the shell it runs in."""

from __future__ import annotations

from typing import Protocol

from zab.session.api import Session
from zab.session.watch import Watch


class ShellContext(Protocol):
    history: list[str]
    prints_watches: bool
    """Events are printed as they come."""
    done: bool
    """No further line is read."""

    @property
    def session(self) -> Session: ...

    @property
    def watch(self) -> Watch:
        """Receives the events of everything that any command watches."""
        ...

    def say(self, *lines: str) -> None: ...

    async def connect(self, servers: str | None) -> None: ...

    async def close(self) -> None: ...

    async def execute(self, line: str) -> None: ...
