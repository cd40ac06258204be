"""The servers that may connect to this one, with their hosts, and the addresses at which this server dials them.

The addresses come from three memberships: the active one, a pending change, and the one in the member's arguments. A
server that left may connect for a while: it still has to apply its own removal, and to answer the client that requested
it.

The directory is pure: times are seconds of a monotonic clock.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from zab.core.ensemble import NO_HOST, Ensemble, Server
from zab.core.zxid import ServerId
from zab.service.election_link import Address
from zab.wire.greeting import WrongPeer


class Memberships(Protocol):
    """The part of a node that the directory reads."""

    @property
    def ensemble(self) -> Ensemble: ...
    @property
    def pending(self) -> Ensemble | None: ...


class PeerDirectory:
    def __init__(
        self, node: Memberships, me: ServerId, given: Ensemble, parting_ms: int, *, admit_non_members: bool = False
    ) -> None:
        """`given`: the membership that the member was started with. A server that left may connect for `parting_ms`."""
        self._node = node
        self._me = me
        self._given = given
        self._parting_s = parting_ms / 1000
        self._admit_non_members = admit_non_members
        self._members = node.ensemble
        """The membership that was activated last."""
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

    def hosts(self, peer: ServerId, introduced: str, now: float) -> Collection[str]:
        """Return the hosts of a server that claims to be `peer`. Raise `WrongPeer` if it may not connect.

        A server that left the membership less than `parting_ms` ago may connect like a member. Any other non-member may
        connect only if non-members are admitted; its host is the one in its introduction.
        """
        hosts = self._member_hosts(peer, now)
        if not hosts and not self._admit_non_members:
            raise WrongPeer(
                f"server {peer} is not a member of the ensemble that server {self._me} knows: add it by a "
                "reconfiguration first, or let the members admit non-members (admit_non_members, "
                "quorum.admitNonMembers)"
            )
        return hosts or [introduced]

    def must_part(self, peer: ServerId, now: float) -> bool:
        """Return whether to cut the link of a server that left the membership.

        True if `parting_ms` are over, the server has not joined again, and non-members are not admitted.
        """
        return not self._admit_non_members and not self._member_hosts(peer, now)

    def _member_hosts(self, peer: ServerId, now: float) -> Collection[str]:
        """Return the hosts of a present or pending member, or of a server that left less than `parting_ms` ago."""
        memberships = (self._node.pending, self._node.ensemble)
        servers = [each.by_id.get(peer) for each in memberships if each is not None]
        hosts = [server.host for server in servers if server is not None]
        left = self._left.get(peer)
        return hosts or ([] if left is None or left[1] <= now else [left[0]])

    def is_known(self, address: str) -> bool:
        """Return whether any known membership has a server whose host is this address."""
        known = (self._node.pending, self._node.ensemble, self._given)
        return any(each is not None and any(server.host == address for server in each.servers) for each in known)

    def activate(self, ensemble: Ensemble, now: float) -> list[tuple[ServerId, float]]:
        """Take a membership that has come into force. Return the servers that it no longer contains.

        Each comes with the time until which it may still connect. At that time, call `must_part`.
        """
        left = [server for sid, server in self._members.by_id.items() if sid not in ensemble.by_id]
        self._members = ensemble
        until = now + self._parting_s
        for server in left:
            self._left[server.id] = server.host, until
        return [(server.id, until) for server in left]

    def own_entry(self, *, listens: bool) -> Server | None:
        """Return this server's entry, with the addresses to listen on; None if it keeps its ports or has no host.

        If this server is not a member, `listens` decides. If it listens already, it keeps its ports, so that it still
        learns of its removal. If it does not, its entry is the one in its arguments.
        """
        server = self._node.ensemble.by_id.get(self._me)
        if server is None:
            if listens:
                return None
            server = self._given.by_id[self._me]
        return None if server.host == NO_HOST else server
