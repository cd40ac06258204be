"""The election links: a task for each other server, with at most one stream. `ElectionLink` decides what it does."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import trio

from zab.core.addresses import with_port
from zab.core.errors import WireError
from zab.core.messages import Notification, Reachable
from zab.core.zxid import ServerId
from zab.host.logs import Log
from zab.net.tls.handshake_errors import is_tls_error
from zab.net.wakeup import Wakeup
from zab.runtime.inbox import Inbox
from zab.runtime.peer_handshake import described
from zab.runtime.peer_port import PeerDialler
from zab.runtime.peer_protocol import UNREACHABLE, Introduction
from zab.service.election_link import Address, DialPeer, ElectionLink
from zab.service.limits import Limits
from zab.wire.frames import FrameReader
from zab.wire.greeting import Purpose

RECEIVE_BYTES = 64 << 10


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
            pair.send(self.dialler.protocol.encode_vote(notification))

    def settled(self) -> None:
        """Send no vote on a later connection: this server is no longer LOOKING, so the votes become out of date."""
        for pair in self._pairs.values():
            pair.link.discard()

    def renew_silent(self, peers: Collection[ServerId], silent_ms: int) -> None:
        """Close the open links to `peers` on which nothing was received for `silent_ms`.

        A link with a vote to send or to repeat is opened again.

        A firewall that has forgotten a connection may drop its bytes for ever, without a reset, and yet admit new
        connections.
        """
        for peer in peers:
            pair = self._pairs.get(peer)
            silent = 0 if pair is None else pair.link.silent_ms(trio.current_time())
            if pair is not None and silent >= silent_ms:
                self.log.warn_rate_limited("election_link_silent", peer, peer=peer, silent_ms=silent)
                pair.renew()

    def drop(self, peer: ServerId) -> None:
        """Close the link to a server that left the membership, if there is one."""
        pair = self._pairs.get(peer)
        if pair is not None:
            pair.scope.cancel()

    async def welcomed(self, introduced: Introduction, stream: trio.abc.Stream) -> None:
        """Take over a stream on which a peer has introduced itself.

        A stream from a peer with a smaller id is only a knock, and is closed. Any stream is closed if the peer is in no
        known membership and `strangers_max` other such peers have links.
        """
        pair = self._pair(introduced.server)
        if pair is None:
            self.log.warn_rate_limited("too_many_unknown_peers", "election", peer=introduced.server)
            await trio.aclose_forcefully(stream)
            return
        has_address = introduced.host and introduced.port
        pair.link.introduced_address = (introduced.host, introduced.port) if has_address else None
        if pair.link.is_dialler:
            # Before any await: the task of a stranger, which has nothing to send, would end.
            pair.knocked()
            await trio.aclose_forcefully(stream)
        else:
            await pair.attach(stream, introduced.first)

    def links(self) -> tuple[ServerId, ...]:
        return tuple(sorted(peer for peer, pair in self._pairs.items() if pair.link.connected))

    def failures(self) -> Mapping[ServerId, str]:
        """Return the reason of the last failed dial, for each server with such a failure and no open link."""
        links = {peer: pair.link for peer, pair in sorted(self._pairs.items())}
        return {peer: link.why for peer, link in links.items() if link.why and not link.connected}

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
    """The connection with one other server, or the attempts to get one. Only its own task dials and serves it."""

    def __init__(self, peer: ServerId, elections: ElectionLinks) -> None:
        self.peer = peer
        self.link = ElectionLink(elections.me, peer, elections.limits)
        self.scope = trio.CancelScope()
        """Cancelled to end the task."""
        self._elections = elections
        self._wakeup = Wakeup()
        """Wakes the task after a change of `link` or `_next`."""
        self._next: trio.abc.Stream | None = None
        """The connection to serve next, or None."""
        self._first = b""
        """The bytes that were received on `_next` with the introduction."""
        self._serving = trio.CancelScope()
        """Cancelled to end the connection that is served."""

    # -- called by `ElectionLinks` ----------------------------------------------------------------------------

    def send(self, frame: bytes) -> None:
        self.link.send(frame)
        self._wakeup.ring()

    def knocked(self) -> None:
        if self.link.knocked(trio.current_time()):
            self._serving.cancel()
            self._wakeup.ring()

    async def attach(self, stream: trio.abc.Stream, first: bytes) -> None:
        """Use the connection that the peer, whose id is larger, has opened, in place of the present one.

        `first`: bytes that were already received.
        """
        old, self._next, self._first = self._next, stream, first
        self._serving.cancel()
        self._wakeup.ring()
        if old is not None:
            await trio.aclose_forcefully(old)

    def renew(self) -> None:
        """Close the connection. `ElectionLink` asks for a new one if there is a vote to send or to repeat."""
        self._serving.cancel()

    async def close(self) -> None:
        if self._next is not None:
            await trio.aclose_forcefully(self._next)

    # -- the task ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Carry out the steps of the link until it is over."""
        while True:
            if self._next is not None:
                stream, first, self._next, self._first = self._next, self._first, None, b""
                await self._serve(stream, first)
                continue
            step = self.link.step(self._elections.addresses(self.peer), trio.current_time())
            if step is None:
                return
            if isinstance(step, DialPeer):
                await self._dial(*step.address)
                continue
            with trio.move_on_at(step.until):
                await self._wakeup.wait()

    async def _dial(self, host: str, port: int) -> None:
        elections, link = self._elections, self.link
        try:
            stream = await elections.dialler.dial(host, port, self.peer, Purpose.ELECTION)
        except UNREACHABLE as error:
            why = described(error)
            link.failed(f"{with_port(host, port)}: {why}", elections.addresses(self.peer), trio.current_time())
            elections.log.say("election_link_failed", "debug", peer=self.peer, why=why)
            if isinstance(error, WireError) or is_tls_error(error):
                elections.log.warn_rate_limited("election_link_refused", self.peer, peer=self.peer, why=why)
            return
        if link.is_dialler:
            self._next = stream
        else:
            link.has_knocked(elections.addresses(self.peer), trio.current_time())
            await trio.aclose_forcefully(stream)

    async def _serve(self, stream: trio.abc.Stream, first: bytes) -> None:
        inbox, log = self._elections.inbox, self._elections.log
        self._serving = trio.CancelScope()
        self.link.opened(trio.current_time())
        try:
            with self._serving:
                log.say("election_link_up", "debug", peer=self.peer)
                inbox.put(self.peer, [Reachable()])
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._send, stream)
                    await self._receive(stream, inbox, first)
                    nursery.cancel_scope.cancel()
        finally:
            self.link.closed(trio.current_time())
            log.say("election_link_down", "debug", peer=self.peer)
            await trio.aclose_forcefully(stream)

    async def _send(self, stream: trio.abc.Stream) -> None:
        while True:
            frame = self.link.take()
            if frame is None:
                await self._wakeup.wait()
                continue
            try:
                await stream.send_all(frame)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self._serving.cancel()
                return

    async def _receive(self, stream: trio.abc.Stream, inbox: Inbox, first: bytes) -> None:
        """Receive votes. An invalid frame ends the connection; a frame without a valid vote is logged and dropped."""
        elections = self._elections
        decode = elections.dialler.protocol.decode_vote
        reader = FrameReader(elections.limits.election_frame_bytes_max)
        try:
            while data := first or await stream.receive_some(RECEIVE_BYTES):
                first = b""
                self.link.received(trio.current_time())
                for payload in reader.feed(data):
                    try:
                        inbox.put(self.peer, [decode(payload)], len(payload))
                    except WireError as error:
                        elections.log.warn_rate_limited("bad_notification", self.peer, peer=self.peer, why=str(error))
                await inbox.wait_for_room()
        except WireError as error:
            elections.log.warn_rate_limited("election_link_cut", self.peer, peer=self.peer, why=str(error))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
