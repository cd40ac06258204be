"""The crash of a server or a broker in the middle of a turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.worlds.cores.controller.broker import Broker
    from harness.worlds.cores.server import Server


class Crashed(BaseException):
    """Unwinds the turn of a server or a broker that a fault crashes at this point. The world does the rest.

    No code of the product may catch it, so it is no `Exception`.
    """

    def __init__(self, server: Server | Broker, loss: str, down_ms: int, everybody: bool) -> None:
        super().__init__(f"server {server.id}")
        self.server = server
        self.loss = loss
        self.down_ms = down_ms
        self.everybody = everybody
