"""A connection between a client and a server, which delivers in order both ways until it breaks or an end hangs up.

Faults of the network between servers do not affect clients, except that a cut of all links of a server cuts them, too.
"""

from __future__ import annotations

from random import Random
from typing import Any

from harness.worlds.cores.simulator import Simulator


class Wire:
    __slots__ = ("_cut", "_delay_min", "_delay_span", "_down_at", "_patience", "_random", "_up_at", "_world", "client",
                 "gone", "life", "server", "shell")  # fmt: skip

    def __init__(self, world: Simulator, client: Any, server: Any, random: Random) -> None:
        timing = world.script.timing
        self._world = world
        self._random = random
        self._delay_min = timing.delay_us_min
        self._delay_span = max(1, timing.delay_us_max - timing.delay_us_min)
        self._patience = 1 + timing.break_ms_max * 1_000
        self._up_at = self._down_at = 0
        self.client = client
        self.server = server
        self.life = 0
        """The life of the server process that it leads to; 0 before the first bytes arrive there."""
        self.shell: Any | None = None
        self.gone = False
        """True if the connection is over for the client. The client sends and receives nothing more on it."""
        self._cut = False
        """True if messages in transit are lost."""

    def _delay(self) -> int:
        return self._delay_min + int(self._random.random() * self._delay_span)

    # -- towards the server ----------------------------------------------------------------------------

    def up(self, data: bytes) -> None:
        if self.gone:
            return
        at = max(self._world.now + self._delay() + self.client.slow_us, self._up_at)
        self._up_at = at
        self._world.push(at, self._arrive, data, None)

    def served_since(self, at: int) -> bool:
        """Return whether the server was able to answer data that was sent at this time."""
        server = self.server
        reachable = not self._cut and self._up_at <= self._world.now and self._down_at <= self._world.now
        return reachable and server.life == self.life and not server.paused and server.resumed_at < at

    def _arrive(self, data: bytes, _: None) -> None:
        server = self.server
        if self._cut:
            return
        if not self.life:
            if not server.up:
                self.broken()  # the server is down
                return
            self.life = server.life
        if server.life != self.life:
            return
        if server.paused:
            server.defer(self._arrive, data, None)
            return
        if self.shell is None:
            self.shell = server.client_port.opened(self)
        self.shell.receive(data)

    # -- towards the client ----------------------------------------------------------------------------

    def down(self, data: bytes) -> None:
        if self.gone:
            return
        at = max(self._world.now + self._delay(), self._down_at)
        self._down_at = at
        self._world.push(at, self._reach, data, None)

    def _reach(self, data: bytes, _: None) -> None:
        if not self.gone:
            self.client.receive(self, data)

    # -- the end ---------------------------------------------------------------------------------------

    def hung_up(self) -> None:
        """Close the connection at the server. Bytes that it sent before still arrive, and then the end."""
        if not self.gone:
            self._world.push(max(self._world.now + self._delay(), self._down_at), self._over, None, None)

    def broken(self) -> None:
        """Break the connection. Messages in transit are lost, and each end notices the break at once or late."""
        if not self.gone:
            self.gone = self._cut = True
            self._world.push(self._world.now + self._sooner_or_later(), self._over, None, None)
            self._world.push(self._world.now + self._sooner_or_later(), self._receive_end, None, None)

    def _sooner_or_later(self) -> int:
        return self._delay() if self._random.random() < 0.5 else int(self._random.random() * self._patience)

    def _over(self, _: None, __: None) -> None:
        self.gone = True
        self.client.lost(self)

    def dropped(self, late_us: int = 0) -> None:
        """Leave the connection as its client. Sent bytes may still arrive. The server notices it at once or late."""
        if not self.gone:
            self.gone = True
            self._world.push(
                max(self._world.now + (late_us or self._sooner_or_later()), self._up_at), self._receive_end, None, None
            )

    def _receive_end(self, _: None, __: None) -> None:
        server, shell = self.server, self.shell
        if shell is None or server.life != self.life:
            return
        if server.paused:
            server.defer(self._receive_end, None, None)
            return
        shell.hung_up()
