"""A simulated server that replicates the store, does what a member does for requests, and has a client port.

The real `zab.service.request_path` decides where requests go and which of them are repeated or refused. This module
does what the real driver does around it in a turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, cast

from attrs import evolve

from harness.worlds.cores.server import Server
from harness.worlds.cores.store.client_port import SimulatedClientPort
from harness.worlds.cores.store.links import Channel, Channels
from harness.worlds.cores.store.machine import Machine
from zab.core.messages import LinkDown, LinkEvent, LinkUp, Message
from zab.core.node import Node
from zab.core.ready import Activate, Append, Apply, BarrierDone, Ready, Recovered, Restore, SendLog
from zab.core.zxid import Millis, ServerId, Zxid
from zab.host.logs import Log
from zab.service.limits import Limits
from zab.service.pending_submissions import PendingSubmissions
from zab.service.request_path import RequestPath
from zab.wire.frames import HEADER_BYTES
from zab.wire.peer import Channel as Direction
from zab.wire.peer import decode
from zab.wire.relay_messages import TAG, Forward

if TYPE_CHECKING:
    from harness.worlds.cores.store.world import StoreWorld
    from zab.core.batch import Batch
    from zab.core.ensemble import Ensemble

LIMITS: Final = Limits()
SUBMITS_MAX: Final = 4
"""The open requests of server 1, which has so little room that its clients' requests have to wait."""
_TAG: Final = Struct(">II")
_TO_LEARNER_FROM: Final = 40
"""Frames of a kind below this number go to the leader, the others to a learner."""
_TOKEN_BITS: Final = 32


class Loud(Log):
    """A log that ends the run at an error that a real member would only log."""

    def failed(self, event: str, error: BaseException, /, **fields: object) -> None:
        raise error


class ToldNode(Node):
    """A node that reports proposals and barriers of the request path to the checkers."""

    server: StoreServer

    def propose(self, payloads: Sequence[bytes], now: Millis) -> Zxid:
        for write in self._out.save:
            if type(write) is Append and write.batch.config:
                self.server.tell_change(write.batch)  # it waits to be written, in front of what is proposed now
        first = super().propose(payloads, now)
        judge = self.server.world.judge
        judge.proposed(self.me, first, payloads)
        judge.broadcasts(self.me, self.epoch)
        return first

    def barrier(self, token: int, now: Millis) -> None:
        """The number that the requests gave it, made one of the whole run."""
        server = self.server
        token |= (server.life << 8 | server.id) << _TOKEN_BITS
        server.world.judge.barrier_asked(self.me, token)
        super().barrier(token, now)


class StoreServer(Server):
    machine: Machine
    world: StoreWorld
    requests: RequestPath
    client_port: SimulatedClientPort

    def __init__(self, world: StoreWorld, sid: ServerId, ensemble: Ensemble, seed: str) -> None:
        super().__init__(world, sid, ensemble, seed)
        self.channels = Channels()
        self._told_change = Zxid(0)
        self._stirred = True
        """Whether the request path may have work: a request, a link or a message of another server has come."""
        self._asked_at = Zxid(0)
        """The committed zxid at the last turn of the request path. When it grows, a leader has room for requests."""
        self._reported_role = self._seen
        self._log = Loud(sid, lambda: self.node.epoch)

    # -- the process -----------------------------------------------------------------------------------

    def empty_machine(self) -> Machine:
        return Machine()

    def make_node(self, recovered: Recovered) -> Node:
        node = ToldNode(self.id, self.ensemble, recovered, self.settings, self.jitter, self.now_ms)
        node.server = self
        self.channels = Channels()
        self.requests = RequestPath(
            node,
            self.machine.store,
            PendingSubmissions(
                _TAG.pack(self.id, self.life),
                SUBMITS_MAX if self.id == 1 else LIMITS.submits_max,
                LIMITS.submit_bytes_max,
            ),
            self.channels,
            # A batch that no epoch has room for would end every leader, and be brought to the next.
            evolve(LIMITS, batch_entries_max=min(LIMITS.batch_entries_max, self.knobs.counter_max)),
            self._log,
            self.wall_ms,
            on_leader_message=lambda body: self.client_port.clients.reported(body),
        )
        self.client_port = SimulatedClientPort(self)
        self._stirred = True
        return node

    def crash(self, loss: str) -> None:
        super().crash(loss)
        self.client_port.cut()

    # -- messages ---------------------------------------------------------------------------------

    def hear(self, source: ServerId, message: Message | LinkEvent) -> None:
        kind: type[Any] = type(message)
        if kind is bytes:
            self._hear_relay(source, cast(bytes, message))
            return
        if kind is LinkUp:
            self._link_up(source, message.dialled)  # type: ignore[union-attr]
        elif kind is LinkDown:
            self._link_lost(self.channels.down(source, message.dialled))  # type: ignore[union-attr]
        super().hear(source, message)

    def _link_up(self, peer: ServerId, dialled: bool) -> None:
        self._stirred = True
        end = (self.dialled if dialled else self.accepted)[peer]
        self._link_lost(self.channels.up(Channel(self.world.network, end)))

    def _link_lost(self, channel: Channel | None) -> None:
        if channel is not None:
            self._stirred = True
            self.requests.on_link_down(channel)

    def _hear_relay(self, source: ServerId, frame: bytes) -> None:
        """The first field of a frame's list is its kind, and each kind goes one way only."""
        world = self.world
        if frame[HEADER_BYTES + 1] < _TO_LEARNER_FROM:
            channel, direction = self.channels.accepted.get(source), Direction.TO_LEADER
        else:
            channel, direction = self.channels.dialled.get(source), Direction.TO_LEARNER
        if channel is None or channel.over:
            return
        try:
            message = decode(direction, frame[HEADER_BYTES:])
            if world.trace is not None:
                world.record(self.id, "hears", source, _brief(message))
            self.requests.handlers[type(message)](channel, message, self.now_ms)
        except Exception as error:
            world.fell(self, f"heard a frame from {source}", error)
        self._stirred = True
        self._turn()

    # -- the turn --------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Take a turn: a request or a barrier was added."""
        self._stirred = True
        self._turn()

    def drain(self) -> None:
        """As the real driver: what the node wants, until neither it nor the requests want anything more.

        Requests are asked only when something can have become of them.
        """
        world, node, life = self.world, self.node, self.life
        try:
            if self._stirred or (self._leads and node.committed != self._asked_at):
                self._ask_requests()
            ready = node.ready()
            while True:
                seen = self._seen
                self._perform(ready)
                if self.life != life:
                    return  # its disk failed in the midst of it
                if not (
                    ready.apply
                    or ready.barriers
                    or self._stirred
                    or self._seen is not seen
                    or (self._leads and node.committed != self._asked_at)
                ):
                    break
                self._ask_requests()
                ready = node.ready()
                if not ready:
                    break
        except Exception as error:
            world.fell(self, "handles requests", error)
        if self._seen is not self._reported_role:
            self._reported_role = self._seen
            self.client_port.role_changed()
        self.client_port.turned()
        self._wind()

    def _ask_requests(self) -> None:
        self._stirred = False
        self._asked_at = self.node.committed
        now = self.now_ms
        self.requests.turn(now)
        self.requests.ask_barrier(now)

    def _perform(self, ready: Ready) -> None:
        super()._perform(ready)
        for wish in ready.links:
            self._link_lost(self.channels.act(wish))

    def ask(self, token: int) -> None:
        self.requests.barriers.add(lambda _, __: None)
        self.wake()

    def _answer(self, barrier: BarrierDone) -> None:
        super()._answer(barrier)
        self.requests.on_barrier(barrier.token & (1 << _TOKEN_BITS) - 1, barrier.zxid)

    def _send_log(self, to: ServerId, message: SendLog) -> None:
        super()._send_log(to, message)
        channel = self.channels.accepted.get(to)
        if channel is not None and channel.over:  # there was no such log any more
            self._link_lost(self.channels.down(to, dialled=False))

    def tell_change(self, batch: Batch) -> None:
        if batch.first > self._told_change:
            self._told_change = batch.first
            super().tell_change(batch)

    # -- the machine -----------------------------------------------------------------------------------

    def _apply(self, ready: Ready) -> None:
        super()._apply(ready)
        zxid: Zxid | None = None
        for item in ready.apply:
            if type(item) is Apply:
                zxid = item.batch.last
            elif type(item) is Activate:
                self.requests.changes.activated(item.ensemble.version)
            elif type(item) is Restore:
                zxid = item.zxid
        if zxid is not None and self.up:
            self.requests.reached(zxid)

    def _feed(self, batch: Batch) -> None:
        mine, applied = self.requests.pending.origin, self.requests.pending.applied

        def tell(payload: bytes, result: object) -> None:
            where, counter = TAG.unpack_from(payload)
            if where == mine:
                applied(counter, result)

        self.machine.apply(batch, tell)

    def _become(self, zxid: Zxid) -> None:
        chunks = self.storage.read_snapshot(zxid)
        self.machine.restore(chunks)
        self.world.jumped(self.id, zxid)
        self.requests.restored(zxid)


def _brief(message: object) -> object:
    """Return a message in short for the trace: forwarded requests as a range of numbers."""
    if isinstance(message, Forward):
        return f"Forward epoch {message.epoch} {message.first}..{message.first + len(message.requests) - 1}"
    return message
