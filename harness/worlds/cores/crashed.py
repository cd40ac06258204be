"""How a server is taken away in the middle of a turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.worlds.cores.server import Server


class Crashed(Exception):
    """Unwinds the turn of a server that a fault takes away right here; the world does the rest."""

    def __init__(self, server: Server, loss: str, down_ms: int, everybody: bool) -> None:
        super().__init__(f"server {server.id}")
        self.server = server
        self.loss = loss
        self.down_ms = down_ms
        self.everybody = everybody
