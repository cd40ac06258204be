"""One server's side of an election link: when it dials, knocks or pauses, and what it sends.

The server with the larger id opens the connection. If the other server has something to send and there is no
connection, it knocks: it connects, introduces itself and closes; then the server with the larger id connects to it. So
two servers that dial each other at the same time get one connection, as in ZooKeeper's `QuorumCnxManager`. Only the
newest message waits to be sent.

The link is pure: times are seconds of a monotonic clock. While there is no connection, its shell
(`zab.runtime.election_links`) calls `step` after each event, and carries out the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final, TypeAlias

from attrs import frozen

from zab.core.zxid import ServerId
from zab.service.limits import Limits

SETTLED_S: Final = 0.5
"""The time after a connection opened in which a knock needs no answer: the peer probably knocked before."""
Address: TypeAlias = tuple[str, int]


@frozen
class DialPeer:
    """Connect to the peer. The server with the smaller id then closes the connection, which asks the peer to dial."""

    address: Address


@frozen
class WaitUntil:
    """Do nothing until this time, unless an event comes first."""

    until: float


class ElectionLink:
    """One election link. While it is not `connected`, `step` returns the next action."""

    def __init__(self, me: ServerId, peer: ServerId, limits: Limits) -> None:
        self.is_dialler = me > peer
        """True if this server opens the connection. Otherwise it knocks, and the peer opens it."""
        self.connected = False
        self.why = ""
        """The reason why the last attempt to connect failed; empty after a success."""
        self.introduced_address: Address | None = None
        """The address with which the peer introduced itself. It may be in no membership known here."""
        self._limits = limits
        self._unsent: bytes | None = None
        """The newest vote, until it is sent."""
        self._last: bytes | None = None
        """The newest vote, unless it was discarded. It is sent again on each new connection."""
        self._knocked = False
        """True from a knock of the peer until this server dials or a connection opens."""
        self._attempts = 0
        """The number of failed dials. It selects the next address of the peer."""
        self._pause_s = self._pause_s_min = limits.redial_ms_min / 1000
        """The next pause. It doubles up to a limit; the end of a connection and an idle `step` reset it."""
        self._paused_until = -inf
        self._connected_at = 0.0
        self._silent_since = 0.0
        """The time at which bytes were last received, or at which the connection opened if none were received since."""

    # -- sending -----------------------------------------------------------------------------------

    def send(self, frame: bytes) -> None:
        """Send a vote in place of an older one that was not sent yet."""
        self._unsent = self._last = frame

    def discard(self) -> None:
        """Send no vote on a later connection, for example because this server is no longer LOOKING.

        An unsent vote still goes out on an open connection: the peer may need it to decide without waiting.
        """
        self._last = None
        if not self.connected:
            self._unsent = None

    def take(self) -> bytes | None:
        """Return the message to send on the connection, if there is one."""
        frame, self._unsent = self._unsent, None
        return frame

    # -- the connection ----------------------------------------------------------------------------

    def opened(self, now: float) -> None:
        """Record that a connection is open. Repeat the last vote: the end of the last connection may have lost it."""
        self.connected, self.why = True, ""
        self._connected_at = self._silent_since = now
        self._knocked = False
        self._unsent = self._last

    def received(self, now: float) -> None:
        self._silent_since = now

    def closed(self, now: float) -> None:
        """Record that the connection has ended. Pause if the peer is the dialler: it may already be dialling again."""
        self.connected = False
        self._pause_s = self._pause_s_min
        self._unsent = self._last
        self._paused_until = now if self.is_dialler else now + self._pause_s

    def silent_ms(self, now: float) -> int:
        """Return the milliseconds for which the connection has received nothing; 0 without a connection."""
        return int((now - self._silent_since) * 1000) if self.connected else 0

    def knocked(self, now: float) -> bool:
        """Take a knock. Return whether to connect again, because the peer has no connection to this server.

        If the connection is quite new, the knock was probably sent before it and needs no answer. If this is wrong, the
        other server knocks again.
        """
        if self.connected and now - self._connected_at < SETTLED_S:
            return False
        self._knocked = True
        return True

    # -- while there is no connection --------------------------------------------------------------

    def step(self, addresses: Sequence[Address], now: float) -> DialPeer | WaitUntil | None:
        """Return the next action. `addresses` are the peer's addresses in the known memberships.

        Return None if no known membership has the peer and no connection is needed: then the link is over. A connection
        is needed only to send something, or after a knock.
        """
        assert not self.connected, "step is called only without a connection"
        if now < self._paused_until and not self._knocked:
            return WaitUntil(self._paused_until)
        if self._unsent is None and not self._knocked:
            self._pause_s = self._pause_s_min
            return WaitUntil(inf) if addresses else None
        self._knocked = False
        known = list(addresses)
        if self.introduced_address is not None and self.introduced_address not in known:
            known.append(self.introduced_address)
        if not known:
            self._back_off(addresses, now)
            return WaitUntil(self._paused_until)
        return DialPeer(known[self._attempts % len(known)])

    def failed(self, why: str, addresses: Sequence[Address], now: float) -> None:
        """Record that a dial to the peer failed."""
        self._attempts += 1
        self.why = why
        self._back_off(addresses, now)

    def has_knocked(self, addresses: Sequence[Address], now: float) -> None:
        """Record that the peer has received this server's knock, and leave it time to connect."""
        self.why = ""
        self._back_off(addresses, now)

    def _back_off(self, addresses: Sequence[Address], now: float) -> None:
        if not addresses:
            self.discard()  # a stranger that wants an answer knocks again
        self._paused_until = now + self._pause_s
        self._pause_s = min(2 * self._pause_s, self._limits.redial_ms_max / 1000)
