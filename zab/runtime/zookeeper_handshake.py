"""The beginnings of connections between servers of Apache ZooKeeper, at both ends.

There is no greeting that both sides speak. A server that dials an election port sends its id and its address, and
nothing answers it. A learner's first packet, FOLLOWERINFO or OBSERVERINFO, has its id and belongs to the link already.
So the name of the ensemble is not checked, and a server that is refused only sees the connection closed. With SASL, the
dialling end also logs in, behind the id or in front of the packet.
"""

from __future__ import annotations

from typing import Final

import trio

from zab.core.errors import WireError
from zab.core.messages import Notification
from zab.core.zxid import ServerId
from zab.runtime.peer_protocol import Introduction, KnownHosts, check_claim
from zab.runtime.quorum_auth import QuorumAuth
from zab.service.limits import Limits
from zab.service.zookeeper_peers import ZookeeperPeers
from zab.wire.apache.election_messages import (
    ElectionOpening,
    ElectionOpeningReader,
    decode_notification,
    encode_notification,
    encode_opening,
)
from zab.wire.apache.link_to_leader import LinkToLeader
from zab.wire.apache.link_to_learner import LinkToLearner
from zab.wire.apache.packet_bodies import decode_info
from zab.wire.apache.proposals import ProposalEncoder
from zab.wire.apache.quorum_packets import PacketReader, PacketType
from zab.wire.greeting import Purpose, WrongPeer
from zab.wire.link_codec import PacketCodec

FIRST_PACKET_BYTES_MAX: Final = 256
"""The largest first packet of a learner. It has 40 bytes."""


class ZookeeperHandshake:
    """The protocol of Apache ZooKeeper on the links of this server: a `PeerProtocol`."""

    def __init__(
        self,
        me: ServerId,
        peers: ZookeeperPeers,
        limits: Limits,
        hosts: KnownHosts,
        encoder: ProposalEncoder,
        auth: QuorumAuth | None = None,
    ) -> None:
        """`encoder` encodes the proposals of this server for all its learners. `auth`: None without SASL."""
        self.me = me
        self._encoder = encoder
        self._auth = auth
        self._peers = peers
        self._packet_bytes_max = limits.frame_bytes_max
        self._timeout_s = limits.handshake_ms / 1000
        self._hosts = hosts
        self._address = ("127.0.0.1", 1)
        """The address of this server's election port."""

    def listen_at(self, host: str, port: int) -> None:
        self._address = (host, port)

    async def call(self, stream: trio.abc.Stream, peer: ServerId, purpose: Purpose) -> None:
        with trio.fail_after(self._timeout_s):
            if purpose is Purpose.ELECTION:
                await stream.send_all(encode_opening(ElectionOpening(self.me, (self._address,))))
            if self._auth is not None:
                await self._auth.prove(stream)

    async def answer(self, stream: trio.abc.Stream, purpose: Purpose) -> Introduction:
        with trio.fail_after(self._timeout_s):
            if purpose is Purpose.ELECTION:
                introduced = await self._election_opening(stream)
            else:
                introduced = await self._first_packet(stream)
        if introduced.server == self.me:
            raise WrongPeer(f"it claims to be server {self.me}, which is this server")
        check_claim(introduced, self._hosts(introduced), stream)
        return introduced

    async def _election_opening(self, stream: trio.abc.Stream) -> Introduction:
        """Receive exactly the opening: the bytes after it belong to the link."""
        reader = ElectionOpeningReader()
        while (opening := reader.feed(await _some(stream, reader.missing_bytes))) is None:
            pass
        first = b"" if self._auth is None else await self._auth.check(stream)
        return Introduction(opening.sid, *opening.addresses[0], first)

    async def _first_packet(self, stream: trio.abc.Stream) -> Introduction:
        reader, first = PacketReader(FIRST_PACKET_BYTES_MAX), b""
        if self._auth is not None:
            first = await self._auth.check(stream)
            reader.feed(first)
        while (packet := reader.next()) is None:
            data = await _some(stream, FIRST_PACKET_BYTES_MAX)
            first += data
            reader.feed(data)
        if packet.type not in (PacketType.FOLLOWER_INFO, PacketType.OBSERVER_INFO):
            raise WireError(f"{packet.type.name} as the first packet of a learner")
        return Introduction(decode_info(packet).sid, first=first)

    def codec(self, *, dialled: bool) -> PacketCodec:
        if dialled:
            enabled = self._peers.reconfig_enabled
            to_leader = LinkToLeader(self.me, self._packet_bytes_max, reconfig_enabled=enabled)
            return PacketCodec(to_leader, to_leader.take_digests)
        return PacketCodec(LinkToLearner(self._packet_bytes_max, self._encoder))

    def encode_vote(self, vote: Notification) -> bytes:
        return encode_notification(vote)

    def decode_vote(self, payload: bytes) -> Notification:
        return decode_notification(payload)


async def _some(stream: trio.abc.Stream, bytes_max: int) -> bytes:
    data = await stream.receive_some(bytes_max)
    if not data:
        raise WireError("the connection was closed before the other end had introduced itself")
    return bytes(data)
