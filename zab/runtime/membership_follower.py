"""Keep the ports and links of a server in line with its membership, as `PeerDirectory` decides."""

from __future__ import annotations

import trio

from zab.core.ensemble import Ensemble
from zab.core.zxid import ServerId
from zab.host.logs import Log
from zab.net.cannot_listen import CannotListen
from zab.net.network import Network
from zab.net.wakeup import Wakeup
from zab.runtime.election_links import ElectionLinks
from zab.runtime.links import Links
from zab.runtime.member_arguments import MemberArguments
from zab.runtime.peer_port import PeerPort
from zab.runtime.peer_protocol import PeerProtocol
from zab.service.peer_directory import PeerDirectory
from zab.wire.greeting import Purpose

BIND_RETRY_S = 1.0


class MembershipFollower:
    """Binds the two ports between servers at the membership's addresses, and cuts links of servers that left."""

    def __init__(
        self,
        arguments: MemberArguments,
        directory: PeerDirectory,
        protocol: PeerProtocol,
        elections: ElectionLinks,
        links: Links,
        network: Network,
        log: Log,
    ) -> None:
        self._arguments = arguments
        self._directory = directory
        self._protocol = protocol
        self._elections = elections
        self._links = links
        self._log = log
        self._election_port = PeerPort(
            Purpose.ELECTION, network, protocol, arguments.limits, log, elections.welcomed, directory.is_known
        )
        self._quorum_port = PeerPort(
            Purpose.LEARNER, network, protocol, arguments.limits, log, links.welcomed, directory.is_known
        )
        self._activated = Wakeup()
        self._nursery: trio.Nursery | None = None
        """Runs the listeners, and the tasks that disconnect removed servers. None before `bind`."""

    def activate(self, ensemble: Ensemble) -> None:
        """Follow a membership that has come into force."""
        for sid, until in self._directory.activate(ensemble, trio.current_time()):
            self._elections.drop(sid)
            if self._nursery is not None:
                self._nursery.start_soon(self._part_from, sid, until)
        self._activated.ring()

    async def _part_from(self, peer: ServerId, until: float) -> None:
        """Cut the link of a server that left the membership, at `until`, unless it may still connect then."""
        await trio.sleep_until(until)
        if self._directory.must_part(peer, trio.current_time()):
            self._links.cut(peer, "the server left the membership")

    async def bind(self, nursery: trio.Nursery) -> None:
        """Listen for the first time, unless this server keeps its ports closed. Raise `CannotListen` if that fails."""
        self._nursery = nursery
        await self._bind(nursery)

    async def run(self) -> None:
        """After `bind`, move the ports to the addresses of each new membership, until cancelled.

        If listening fails, try again every `BIND_RETRY_S`.
        """
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
        server = self._directory.own_entry(listens=self._quorum_port.bound is not None)
        if server is None or not arguments.listen:
            return
        host = arguments.listen_host or server.host
        self._protocol.listen_at(server.host, server.election_port)
        await self._election_port.bind(nursery, host, server.election_port)
        await self._quorum_port.bind(nursery, host, server.quorum_port)
