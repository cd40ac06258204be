"""Election links: one connection for each pair of servers, which carries one message at a time, the newest.

The server with the larger id opens the connection. The other server, if it has something to send, knocks: it connects,
introduces itself and closes, and the larger one connects to it. So two servers that dial each other at the same time
end with one connection, as in ZooKeeper's `QuorumCnxManager`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import trio

from zab.core.errors import WireError
from zab.core.messages import Notification, Reachable
from zab.core.zxid import ServerId
from zab.host.logs import Log
from zab.net.tls.handshake_errors import is_tls_error
from zab.net.wakeup import Wakeup
from zab.runtime.inbox import Inbox
from zab.runtime.peer_handshake import UNREACHABLE, described
from zab.runtime.peer_port import PeerDialler
from zab.service.limits import Limits
from zab.wire.frames import FrameReader
from zab.wire.greeting import Hello, Purpose
from zab.wire.peer import Channel, decode, encode

RECEIVE_BYTES = 64 << 10
SETTLED_S = 0.5
"""A knock that arrives within this time of a new connection has crossed it, and is answered by it already."""
Address = tuple[str, int]


class ElectionLinks:
    """The election links of one server. `addresses` returns a server's addresses in the known memberships, if any."""

    def __init__(
        self,
        me: ServerId,
        dialler: PeerDialler,
        inbox: Inbox,
        limits: Limits,
        log: Log,
        addresses: Callable[[ServerId], Sequence[Address]],
    ) -> None:
        self.me = me
        self.dialler = dialler
        self.inbox = inbox
        self.limits = limits
        self.log = log
        self.addresses = addresses
        self._pairs: dict[ServerId, PeerConnection] = {}
        self._nursery: trio.Nursery | None = None

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            for pair in self._pairs.values():
                nursery.start_soon(self._run_pair, pair)
            await trio.sleep_forever()

    def send(self, peer: ServerId, notification: Notification) -> None:
        pair = self._pair(peer)
        if pair is not None:
            pair.send(encode(notification))

    def settled(self) -> None:
        """Discard unsent votes: this server is no longer LOOKING, so they are out of date."""
        for pair in self._pairs.values():
            pair.unsent = pair.last = None

    def renew_silent(self, peers: Collection[ServerId], silent_ms: int) -> None:
        """Connect anew to those of `peers` whose open link has received nothing for `silent_ms`.

        A middlebox that forgot a connection may swallow its bytes for ever, without a reset, and let new ones through.
        """
        for peer in peers:
            pair = self._pairs.get(peer)
            if pair is not None and pair.silent_ms >= silent_ms:
                self.log.warn_rate_limited("election_link_silent", peer, peer=peer, silent_ms=pair.silent_ms)
                pair.renew()

    def drop(self, peer: ServerId) -> None:
        """Close the link of a server that left the membership."""
        pair = self._pairs.get(peer)
        if pair is not None:
            pair.scope.cancel()

    async def welcomed(self, hello: Hello, stream: trio.abc.Stream) -> None:
        pair = self._pair(hello.server)
        if pair is None:
            self.log.warn_rate_limited("too_many_unknown_peers", "election", peer=hello.server)
            await trio.aclose_forcefully(stream)
            return
        pair.introduced_address = (hello.host, hello.port) if hello.host and hello.port else None
        if hello.server < self.me:
            pair.knocked()  # before anything is awaited: a stranger's pair that has nothing to do ends
            await trio.aclose_forcefully(stream)
        else:
            await pair.attach(stream)

    def links(self) -> tuple[ServerId, ...]:
        return tuple(sorted(peer for peer, pair in self._pairs.items() if pair.connected))

    def failures(self) -> Mapping[ServerId, str]:
        """Return, for each server whose last dial failed, the reason."""
        return {peer: pair.why for peer, pair in sorted(self._pairs.items()) if pair.why and not pair.connected}

    def _pair(self, peer: ServerId) -> PeerConnection | None:
        pair = self._pairs.get(peer)
        if pair is None:
            strangers = sum(not self.addresses(known) for known in self._pairs)
            if not self.addresses(peer) and strangers >= self.limits.strangers_max:
                return None
            pair = self._pairs[peer] = PeerConnection(peer, self)
            if self._nursery is not None:
                self._nursery.start_soon(self._run_pair, pair)
        return pair

    async def _run_pair(self, pair: PeerConnection) -> None:
        try:
            with pair.scope:
                await pair.run()
        finally:
            if self._pairs.get(pair.peer) is pair:
                del self._pairs[pair.peer]
            await pair.close()


class PeerConnection:
    """The connection with one other server. Only its own task opens, serves and closes it."""

    def __init__(self, peer: ServerId, elections: ElectionLinks) -> None:
        self.peer = peer
        self.unsent: bytes | None = None
        """The newest vote, until it is sent."""
        self.last: bytes | None = None
        """The last vote that was sent. It is sent again on a new connection."""
        self.introduced_address: Address | None = None
        """The address with which the peer introduced itself. It may be in no membership known here."""
        self.connected = False
        self.why = ""
        """The reason why the last attempt to connect failed; empty after a success."""
        self.scope = trio.CancelScope()
        self._elections = elections
        self._wakeup = Wakeup()
        self._next: trio.abc.Stream | None = None
        self._call_back = False
        self._serving = trio.CancelScope()
        self._connected_at = 0.0
        self._silent_since = 0.0
        """The connection has brought nothing since this time."""
        self._turn = 0

    # -- called by `ElectionLinks` ----------------------------------------------------------------------------

    def send(self, frame: bytes) -> None:
        """Replace any unsent message: an older vote is worthless."""
        self.unsent = frame
        self._wakeup.ring()

    def knocked(self) -> None:
        """Connect to the server with the smaller id: it has knocked, so it has no connection to this one.

        The knock may have crossed a connection that is quite new. That connection answers it. If it does not, the
        other server knocks again.
        """
        if self.connected and trio.current_time() - self._connected_at < SETTLED_S:
            return
        self._call_back = True
        self._serving.cancel()
        self._wakeup.ring()

    async def attach(self, stream: trio.abc.Stream) -> None:
        """Use the connection that the server with the larger id has opened, in place of the present one."""
        old, self._next = self._next, stream
        self._serving.cancel()
        self._wakeup.ring()
        if old is not None:
            await trio.aclose_forcefully(old)

    @property
    def silent_ms(self) -> int:
        """Milliseconds for which the open connection has received nothing; 0 if there is none."""
        return int((trio.current_time() - self._silent_since) * 1000) if self.connected else 0

    def renew(self) -> None:
        """Close the connection. While there is something to send, the larger one dials again, and the smaller one
        knocks.
        """
        self._serving.cancel()

    async def close(self) -> None:
        if self._next is not None:
            await trio.aclose_forcefully(self._next)

    # -- its task ----------------------------------------------------------------------------------

    async def run(self) -> None:
        limits = self._elections.limits
        pause_ms = limits.redial_ms_min
        while True:
            if self._next is not None:
                stream, self._next = self._next, None
                await self._serve(stream)
                pause_ms = limits.redial_ms_min
                if self.unsent is None:
                    self.unsent = self.last  # it may have been lost with the connection
                if self._elections.me < self.peer:
                    await self._pause(pause_ms / 1000)  # the peer may already be connecting again
            elif self.unsent is None and not self._call_back:
                if not self._elections.addresses(self.peer):
                    return  # a stranger that is gone
                await self._wakeup.wait()
                pause_ms = limits.redial_ms_min
            else:
                self._call_back = False
                if not await self._connect():
                    if not self._elections.addresses(self.peer):
                        self.unsent = self.last = None  # a stranger that wants an answer knocks again
                    await self._pause(pause_ms / 1000)
                    pause_ms = min(2 * pause_ms, limits.redial_ms_max)

    async def _connect(self) -> bool:
        """Dial, or knock if the peer has the larger id. If several addresses are known, they take turns."""
        elections = self._elections
        addresses = list(elections.addresses(self.peer))
        if self.introduced_address is not None and self.introduced_address not in addresses:
            addresses.append(self.introduced_address)
        if not addresses:
            return False
        host, port = addresses[self._turn % len(addresses)]
        try:
            stream = await elections.dialler.dial(host, port, self.peer, Purpose.ELECTION)
        except UNREACHABLE as error:
            self._turn += 1
            self.why = f"{host}:{port}: {described(error)}"
            elections.log.say("election_link_failed", "debug", peer=self.peer, why=described(error))
            if isinstance(error, WireError) or is_tls_error(error):
                elections.log.warn_rate_limited(
                    "election_link_refused", self.peer, peer=self.peer, why=described(error)
                )
            return False
        self.why = ""
        if elections.me < self.peer:
            await trio.aclose_forcefully(stream)
            return False  # the peer connects now
        if self._next is not None:
            await trio.aclose_forcefully(self._next)
        self._next = stream
        return True

    async def _pause(self, seconds: float) -> None:
        with trio.move_on_after(seconds):
            while self._next is None and not self._call_back:
                await self._wakeup.wait()

    async def _serve(self, stream: trio.abc.Stream) -> None:
        inbox = self._elections.inbox
        if self.unsent is None:
            self.unsent = self.last
        self.connected = True
        self._connected_at = self._silent_since = trio.current_time()
        self._call_back = False
        self._serving = trio.CancelScope()
        try:
            with self._serving:
                self._elections.log.say("election_link_up", "debug", peer=self.peer)
                inbox.put(self.peer, [Reachable()])
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._send, stream)
                    await self._receive(stream, inbox)
                    nursery.cancel_scope.cancel()
        finally:
            self.connected = False
            self._elections.log.say("election_link_down", "debug", peer=self.peer)
            await trio.aclose_forcefully(stream)

    async def _send(self, stream: trio.abc.Stream) -> None:
        while True:
            frame, self.unsent = self.unsent, None
            if frame is None:
                await self._wakeup.wait()
                continue
            self.last = frame
            try:
                await stream.send_all(frame)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self._serving.cancel()
                return

    async def _receive(self, stream: trio.abc.Stream, inbox: Inbox) -> None:
        """Receive votes. An invalid frame ends the connection; a valid frame without a vote is only dropped."""
        elections = self._elections
        reader = FrameReader(elections.limits.election_frame_bytes_max)
        try:
            while data := await stream.receive_some(RECEIVE_BYTES):
                self._silent_since = trio.current_time()
                for payload in reader.feed(data):
                    try:
                        inbox.put(self.peer, [decode(Channel.ELECTION, payload)], len(payload))
                    except WireError as error:
                        elections.log.warn_rate_limited("bad_notification", self.peer, peer=self.peer, why=str(error))
                await inbox.wait_for_room()
        except WireError as error:
            elections.log.warn_rate_limited("election_link_cut", self.peer, peer=self.peer, why=str(error))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
