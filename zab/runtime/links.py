"""The learner links of a member: one dialled to its leader, and one accepted from each server that it leads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import trio

from zab.core.messages import TO_LEADER, Diff, LinkUp, Notification
from zab.core.ready import Dial, Envelope, HangUp, SendLog, SendRest, SendSnapshot
from zab.core.zxid import ServerId
from zab.net.socket_reader import TASK_READER, SocketReader
from zab.runtime.election_links import ElectionLinks
from zab.runtime.inbox import Inbox
from zab.runtime.learner_sync import STARTS_SYNC, Item, LearnerSync, SnapshotToSend
from zab.runtime.link import Link
from zab.runtime.peer_port import PeerDialler
from zab.runtime.peer_protocol import Introduction
from zab.service.election_link import Address
from zab.service.health.status import LinkStatus
from zab.service.limits import Limits
from zab.wire.greeting import Purpose
from zab.wire.link_codec import LinkCodec

_PARTS: Final = (SendSnapshot, SendRest, SendLog, Notification)


class Links:
    """Holds the current link of each peer. Only the driver changes which link is current, in a turn."""

    def __init__(
        self,
        dialler: PeerDialler,
        elections: ElectionLinks,
        learner_sync: LearnerSync,
        inbox: Inbox,
        limits: Limits,
        addresses: Callable[[ServerId], Sequence[Address]],
        socket_reader: SocketReader = TASK_READER,
    ) -> None:
        self.dialled: dict[ServerId, Link] = {}
        """The current link to each server that this server has dialled, by server id."""
        self.accepted: dict[ServerId, Link] = {}
        """The current link of each server that has dialled this server, once a turn has taken its `LinkUp`."""
        self._dialler = dialler
        self._elections = elections
        self._learner_sync = learner_sync
        self._inbox = inbox
        self._limits = limits
        self._addresses = addresses
        self._socket_reader = socket_reader
        self._nursery: trio.Nursery | None = None
        self._attempts = 0
        """The number of dials so far. It selects the next address of a peer."""
        self.unsent: list[Link] = []
        """Links that have something to `flush`."""
        self.diffs = self.snapshots = 0
        """The numbers of `Diff` and of `SendSnapshot` messages that were queued for learners."""

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            await trio.sleep_forever()

    # -- opening and closing -------------------------------------------------------------------------

    async def welcomed(self, introduced: Introduction, stream: trio.abc.Stream) -> None:
        """Serve the link of a learner that has dialled. It becomes current when a turn takes its `LinkUp`.

        Close the stream instead if there are `links_max` links, accepted and dialled, or if `run` is not running.
        """

        async def opened() -> trio.abc.Stream:
            return stream

        if self._nursery is None or len(self._nursery.child_tasks) >= self._limits.links_max:
            await trio.aclose_forcefully(stream)
            return
        link = self._new_link(introduced.server, dialled=False)
        self._nursery.start_soon(link.run, opened, LinkUp(dialled=False), self._inbox, introduced.first)

    def _new_link(self, peer: ServerId, *, dialled: bool) -> Link:
        codec: LinkCodec = self._dialler.protocol.codec(dialled=dialled)
        return Link(peer, dialled, self._limits, self._socket_reader, self.unsent, codec)

    def accept(self, link: Link) -> Link | None:
        """Make this the current link of its peer. Close the former one, and return it; None if there was none.

        No further message of the former link is delivered.
        """
        old = self.accepted.get(link.peer)
        if old is not None:
            old.over = True
            old.cut("replaced by a new link of the same server")
        self.accepted[link.peer] = link
        return old

    def cut(self, peer: ServerId, why: str) -> None:
        """Close the link that this server accepted from a peer, if there is one."""
        link = self.accepted.get(peer)
        if link is not None:
            link.cut(why)

    def lost(self, link: Link) -> None:
        link.over = True
        table = self.dialled if link.dialled else self.accepted
        if table.get(link.peer) is link:
            del table[link.peer]

    def act(self, action: Dial | HangUp) -> Link | None:
        """Carry out one action of `Ready.links`. Return the link that a `HangUp` closed, or None."""
        if isinstance(action, Dial):
            self._dial(action.to)
            return None
        table = self.dialled if action.dialled else self.accepted
        link = table.pop(action.peer, None)
        if link is not None:
            link.over = True
            link.hang_up()
        return link

    def _dial(self, peer: ServerId) -> None:
        assert self._nursery is not None
        old = self.dialled.pop(peer, None)
        if old is not None:
            old.over = True
            old.cut("replaced by a new connection")
        link = self.dialled[peer] = self._new_link(peer, dialled=True)
        addresses = self._addresses(peer)
        self._attempts += 1

        async def opened() -> trio.abc.Stream:
            if not addresses:
                raise OSError(f"no membership known here has an address of server {peer}")
            host, port = addresses[self._attempts % len(addresses)]
            return await self._dialler.dial(host, port, peer, Purpose.LEARNER)

        self._nursery.start_soon(link.run, opened, LinkUp(dialled=True), self._inbox)

    # -- sending -----------------------------------------------------------------------------------

    def send(self, envelopes: Iterable[Envelope], snapshot: Callable[[], Iterable[bytes]]) -> None:
        """Queue messages for their servers: notifications on the election links, all others on the learner links.

        A message without a link to its server is dropped. A message for several servers in a row is encoded once, if
        the protocol allows this. The messages of a synchronization become bulk data, and so do all later ones of this
        call for the same server. `snapshot` returns the machine's chunks for a `SendSnapshot`.
        """
        last: object = None
        frame = b""
        synced: dict[Link, list[Item]] = {}
        for envelope in envelopes:
            message = envelope.message
            kind = type(message)
            if kind is Notification:
                self._elections.send(envelope.to, message)  # type: ignore[arg-type]  # its kind was compared
                continue
            link = (self.dialled if kind in TO_LEADER else self.accepted).get(envelope.to)
            if link is None:
                continue
            if kind in STARTS_SYNC:
                synced.setdefault(link, [])
                self.diffs += kind is Diff
                self.snapshots += kind is SendSnapshot
            if synced and link in synced:
                synced[link].append(
                    SnapshotToSend(message, snapshot()) if isinstance(message, SendSnapshot) else message
                )
                continue
            if message is not last:
                assert not isinstance(message, _PARTS), "sent only in a synchronization, or on an election link"
                if not link.codec.shares_frames:
                    link.send_message(message)
                    continue
                last, frame = message, link.codec.encode(message)
            link.send(frame)
        for link, items in synced.items():
            link.send_bulk(self._learner_sync.bulk_sender(items, link))

    def progress(self) -> Iterator[tuple[ServerId, int]]:
        """Yield the peer and the `moved_bytes` of each current link."""
        for link in (*self.dialled.values(), *self.accepted.values()):
            yield link.peer, link.moved_bytes

    def flush(self) -> None:
        """Flush each link on which something was queued since the last call."""
        for link in self.unsent:
            link.flush()
        self.unsent.clear()

    def status(self) -> tuple[LinkStatus, ...]:
        links = (*self.dialled.values(), *self.accepted.values())
        return tuple(
            LinkStatus(link.peer, link.dialled, link.queued_bytes, link.sent_bytes, link.received_bytes)
            for link in links
        )
