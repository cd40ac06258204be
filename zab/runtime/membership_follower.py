"""The ports and links of a server follow its membership.

A server listens where the membership says, dials the addresses that the memberships give, and lets in their servers.
A server that left may connect for a while: it has yet to apply its own removal, and to answer the client that asked.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import trio

from zab.core.ensemble import NO_HOST, Ensemble
from zab.core.node import Node
from zab.core.zxid import ServerId
from zab.host.logs import Log
from zab.net.cannot_listen import CannotListen
from zab.net.network import Network
from zab.net.wakeup import Wakeup
from zab.runtime.election_links import Address, ElectionLinks
from zab.runtime.links import Links
from zab.runtime.member_arguments import MemberArguments
from zab.runtime.peer_handshake import PeerHandshake
from zab.runtime.peer_port import PeerPort
from zab.wire.greeting import Purpose

BIND_RETRY_S = 1.0


class PeerDirectory:
    """The addresses of the servers of all known memberships, and the hosts from which they may connect."""

    def __init__(self, node: Node, given: Ensemble, parting_ms: int) -> None:
        """`given`: the membership that the member was started with. A server that left may connect for `parting_ms`."""
        self._node = node
        self._given = given
        self._parting_s = parting_ms / 1000
        self._left: dict[ServerId, tuple[str, float]] = {}
        """Servers that left the membership: the host of each, and the time until which it may still connect."""

    def election_addresses(self, peer: ServerId) -> Sequence[Address]:
        """Return the addresses of a server's election port, those of the newest membership first."""
        return self._addresses("election_port", peer)

    def quorum_addresses(self, peer: ServerId) -> Sequence[Address]:
        """Return the addresses of a server's quorum port, those of the newest membership first."""
        return self._addresses("quorum_port", peer)

    def _addresses(self, port: str, peer: ServerId) -> Sequence[Address]:
        found: list[Address] = []
        for ensemble in (self._node.pending, self._node.ensemble, self._given):
            server = None if ensemble is None else ensemble.by_id.get(peer)
            if server is not None and server.host != NO_HOST and (server.host, getattr(server, port)) not in found:
                found.append((server.host, getattr(server, port)))
        return found

    def hosts(self, peer: ServerId) -> Collection[str]:
        """Return the hosts from which a server may connect: none for a server that is not a member.

        A member counts now, when a pending change is decided, and for a while after it left.
        """
        memberships = (self._node.pending, self._node.ensemble)
        servers = [each.by_id.get(peer) for each in memberships if each is not None]
        hosts = [server.host for server in servers if server is not None]
        left = self._left.get(peer)
        return hosts or ([] if left is None or left[1] <= trio.current_time() else [left[0]])

    def is_known(self, address: str) -> bool:
        """Return whether a server of any known membership lives at this address."""
        known = (self._node.pending, self._node.ensemble, self._given)
        return any(each is not None and any(server.host == address for server in each.servers) for each in known)

    def depart(self, peer: ServerId, host: str) -> float:
        """Note that a server left the membership. Return the time until which it may still connect."""
        until = trio.current_time() + self._parting_s
        self._left[peer] = host, until
        return until


class MembershipFollower:
    """Binds the two ports between servers where the membership says, and cuts links of servers that left."""

    def __init__(
        self,
        node: Node,
        arguments: MemberArguments,
        directory: PeerDirectory,
        handshake: PeerHandshake,
        elections: ElectionLinks,
        links: Links,
        network: Network,
        log: Log,
    ) -> None:
        self._node = node
        self._arguments = arguments
        self._directory = directory
        self._handshake = handshake
        self._elections = elections
        self._links = links
        self._log = log
        self._election_port = PeerPort(
            Purpose.ELECTION, network, handshake, arguments.limits, log, elections.welcomed, directory.is_known
        )
        self._quorum_port = PeerPort(
            Purpose.LEARNER, network, handshake, arguments.limits, log, links.welcomed, directory.is_known
        )
        self._members = node.ensemble
        """The membership that was activated last."""
        self._activated = Wakeup()
        self._nursery: trio.Nursery | None = None
        """Holds the listeners, and the tasks that part from servers. None before `bind`."""

    def activate(self, ensemble: Ensemble) -> None:
        """Follow a membership that has come into force."""
        for sid, server in self._members.by_id.items():
            if sid not in ensemble.by_id:
                self._elections.drop(sid)
                until = self._directory.depart(sid, server.host)
                if self._nursery is not None and not self._arguments.admit_non_members:
                    self._nursery.start_soon(self._part_from, sid, until)
        self._members = ensemble
        self._activated.ring()

    async def _part_from(self, peer: ServerId, until: float) -> None:
        """Cut the link of a server that left the membership, when its time is over and it has not come back."""
        await trio.sleep_until(until)
        if not self._directory.hosts(peer):
            self._links.cut(peer, "it left the membership")

    async def bind(self, nursery: trio.Nursery) -> None:
        """Listen for the first time. Raises `CannotListen`."""
        self._nursery = nursery
        await self._bind(nursery)

    async def run(self) -> None:
        """Follow the changes after `bind`, until cancelled. A port that is taken is tried again and again."""
        assert self._nursery is not None, "bind comes first"
        while True:
            await self._activated.wait()
            while True:
                try:
                    await self._bind(self._nursery)
                    break
                except CannotListen as error:
                    self._log.warn_rate_limited("port_taken", "rebind", why=error)
                    await trio.sleep(BIND_RETRY_S)

    async def _bind(self, nursery: trio.Nursery) -> None:
        arguments = self._arguments
        server = self._node.ensemble.by_id.get(arguments.me)
        if server is None:  # not a member yet, or not any more
            if self._quorum_port.bound is not None:
                return
            server = arguments.ensemble.by_id[arguments.me]
        if not arguments.listen or server.host == NO_HOST:
            return
        host = arguments.listen_host or server.host
        self._handshake.listen_at(server.host, server.election_port)
        await self._election_port.bind(nursery, host, server.election_port)
        await self._quorum_port.bind(nursery, host, server.quorum_port)
