"""A simulated server that replicates the store, forwards requests as a member does, and has a client port.

The real `MemberTurn` orders the steps of a turn. The real `RequestPath` decides where requests go, and which of them
are repeated or refused. This module only delivers messages, and carries out the effects of a turn on virtual time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Any, Final, cast

from attrs import evolve, frozen

from harness.worlds.cores.network import End, Network
from harness.worlds.cores.server import Server
from harness.worlds.cores.store.client_port import SimulatedClientPort
from harness.worlds.cores.store.machine import Machine
from harness.worlds.cores.store.simulator import StoreSimulator
from zab.core.batch import Batch
from zab.core.ensemble import Ensemble
from zab.core.errors import NewConfigNoQuorum, NotLeader
from zab.core.messages import LinkDown, LinkEvent, LinkUp, Message
from zab.core.node import Node
from zab.core.outbox import EMPTY_READY
from zab.core.ready import Append, BarrierDone, HangUp, Ready, Recovered, Restore, SendLog
from zab.core.zxid import Millis, ServerId, Zxid
from zab.host.logs import Log
from zab.service.batch_applier import BatchApplier
from zab.service.config_node import check_request
from zab.service.forwarding.pending_submissions import PendingSubmissions
from zab.service.forwarding.proposal_queue import NEVER_STALLS
from zab.service.forwarding.request_path import RequestPath
from zab.service.limits import Limits
from zab.service.member_turn import MemberTurn
from zab.store.operations import Fields
from zab.wire.frames import HEADER_BYTES
from zab.wire.peer import Channel as Direction
from zab.wire.peer import decode
from zab.wire.relay_messages import Forward

LIMITS: Final = Limits()
SUBMITS_MAX: Final = 4
"""The largest number of open requests of server 1. It is so small that requests of its clients have to wait."""
_TAG: Final = Struct(">II")
_TO_LEARNER_FROM: Final = 40
"""Frames of a kind below this number go to the leader, the others to a learner."""
_TOKEN_BITS: Final = 32


class RaisingLog(Log):
    """A log that raises errors, which a real member would only log."""

    def failed(self, event: str, error: BaseException, /, **fields: object) -> None:
        raise error


class ReportingNode(Node):
    """A node that reports proposals and barriers of the request path to the checkers."""

    server: StoreServer

    def propose(self, payloads: Sequence[bytes], now: Millis) -> Zxid:
        for write in self._out.save:
            if type(write) is Append and write.batch.config:
                self.server.report_change(write.batch)  # it comes before the proposals of this call
        try:
            first = super().propose(payloads, now)
        except NotLeader:
            self.server.not_proposed(len(payloads))
            raise
        judge = self.server.world.judge
        judge.proposed(self.me, first, payloads)
        judge.broadcasts(self.me, self.epoch)
        return first

    def reconfigure(self, ensemble: Ensemble, expect: Zxid | None, now: Millis, attached: bytes = b"") -> Zxid:
        if not self.server.world.nemesis.can_spare(None, ensemble):
            raise NewConfigNoQuorum("the servers with whole disks must be a quorum of every membership")
        return super().reconfigure(ensemble, expect, now, attached)

    def barrier(self, token: int, now: Millis) -> None:
        server = self.server
        server.world.judge.barrier_asked(self.me, server.token_in_run(token))
        super().barrier(token, now)


class Channel:
    """One end of a link, with the interface of a real channel."""

    __slots__ = ("_end", "_network", "dialled", "peer")

    def __init__(self, network: Network, end: End) -> None:
        self._network = network
        self._end = end
        self.peer: ServerId = end.peer
        self.dialled: bool = end.dialled

    @property
    def over(self) -> bool:
        return not self._end.open

    def send(self, frame: bytes) -> None:
        self._network.send(self._end, frame)

    def cut(self, why: str) -> None:
        self._network.break_link(self._end.link)


class Channels:
    """The current links of a server, by peer, as the real `RequestPath` uses them."""

    def __init__(self) -> None:
        self.dialled: dict[ServerId, Channel] = {}
        self.accepted: dict[ServerId, Channel] = {}

    def up(self, channel: Channel) -> Channel | None:
        """Add a link. Return the link that it replaces, or None."""
        table = self.dialled if channel.dialled else self.accepted
        old = table.get(channel.peer)
        table[channel.peer] = channel
        return old

    def down(self, peer: ServerId, dialled: bool) -> Channel | None:
        return (self.dialled if dialled else self.accepted).pop(peer, None)


@frozen
class MembershipState:
    """The part of the status of a real member that decides about reconfigurations."""

    server: ServerId
    ensemble: Ensemble
    pending: Ensemble | None
    synced: tuple[ServerId, ...]


class StoreServer(Server):
    machine: Machine
    world: StoreSimulator
    requests: RequestPath
    client_port: SimulatedClientPort

    def __init__(self, world: StoreSimulator, sid: ServerId, ensemble: Ensemble, seed: str) -> None:
        super().__init__(world, sid, ensemble, seed)
        self.channels = Channels()
        self._reported_change = Zxid(0)
        """The zxid of the last membership change that was reported to the judge."""
        self._reported_role = self._seen
        """The status of the node at the last report of the role to the client port."""
        self._in_hand: Ready | None = None
        """The Ready whose writes were handed to the disk before its other effects."""
        self._turns_life = 0
        """The life in which the present turn began."""
        self._log = RaisingLog(sid, lambda: self.node.epoch)

    # -- the process -----------------------------------------------------------------------------------

    def empty_machine(self) -> Machine:
        return Machine(self._check_reconfiguration)

    def _check_reconfiguration(self, fields: Fields, zxid: int) -> None:
        node = self.node
        status = MembershipState(self.id, node.ensemble, node.pending, node.synced)
        check_request(fields, status, self.client_port.settings)

    def make_node(self, recovered: Recovered) -> Node:
        node = ReportingNode(self.id, self.ensemble, recovered, self.settings, self.jitter, self.now_ms)
        node.server = self
        self.channels = Channels()
        self.requests = RequestPath(
            node,
            self.machine.store,
            PendingSubmissions(
                _TAG.pack(self.id, self.life),
                min(SUBMITS_MAX, LIMITS.submits_max) if self.id == 1 else LIMITS.submits_max,
                LIMITS.submit_bytes_max,
                LIMITS.leaders_lost_max,
            ),
            self.channels,
            # A batch with more entries than an epoch has zxids would end the leadership of every leader in turn.
            evolve(LIMITS, batch_entries_max=min(LIMITS.batch_entries_max, self.knobs.counter_max)),
            self._log,
            self.clock.wall_ms,
            on_leader_message=lambda body: self.client_port.clients.reported(body),
        )
        self.client_port = SimulatedClientPort(self.world, self, self.requests, self.machine.store)
        self._applier = BatchApplier(
            self.machine.store,
            self.storage,
            self.requests.pending,
            self._count_applied,
            self._on_membership,
            NEVER_STALLS,
        )
        self._applier.activate(node.ensemble)
        self._member_turn = MemberTurn[None](node, self.requests, self)
        return node

    def crash(self, loss: str) -> None:
        super().crash(loss)
        self.client_port.cut()

    # -- messages ---------------------------------------------------------------------------------

    def receive(self, source: ServerId, message: Message | LinkEvent) -> None:
        kind: type[Any] = type(message)
        if kind is bytes:
            self._receive_relay(source, cast(bytes, message))
            return
        if kind is LinkUp:
            self._link_up(source, message.dialled)  # type: ignore[union-attr]
        elif kind is LinkDown:
            self._link_lost(self.channels.down(source, message.dialled))  # type: ignore[union-attr]
        super().receive(source, message)

    def _link_up(self, peer: ServerId, dialled: bool) -> None:
        end = (self.dialled if dialled else self.accepted)[peer]
        self._link_lost(self.channels.up(Channel(self.world.network, end)))

    def _link_lost(self, channel: Channel | None) -> None:
        if channel is not None:
            self.requests.on_link_down(channel)

    def _receive_relay(self, source: ServerId, frame: bytes) -> None:
        """Handle a frame of the request path. Its first field is its kind, and each kind has only one direction."""
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
            world.report_failure(self, f"fails to handle a frame from server {source}", error)
        self.turn_soon()

    # -- the turn --------------------------------------------------------------------------------------

    def ask(self, token: int) -> None:
        self.requests.barriers.add(lambda _, __: None)
        self.turn_soon()

    def drain(self) -> None:
        """Take a turn, and report the role after it. A server whose disk fails does not continue."""
        self._turns_life = self.life
        try:
            for _ in self._member_turn.steps(self.now_ms, steady=self._reported_role[4]):
                return
            self._hand_over(EMPTY_READY)
            self._conclude(EMPTY_READY)
            if not self._gathering:  # otherwise `snapshot` has called this method, and would call it for ever
                self._snapshot_if_due()
        except Exception as error:
            self.world.report_failure(self, "fails in a turn", error)
        if self._seen is not self._reported_role:
            self._reported_role = self._seen
            self.client_port.role_changed()
        self.client_port.turned()
        self._wind()

    # -- the effects of a turn -------------------------------------------------------------------------

    def begin(self, ready: Ready) -> None:
        self._hand_over(ready)
        self._in_hand = ready
        self._note(ready)

    def send_and_save(self, ready: Ready) -> None:
        if self._in_hand is not ready:
            self._hand_over(ready)
        self._send_all(ready)
        for action in ready.links:
            if isinstance(action, HangUp):
                self._link_lost(self.channels.down(action.peer, action.dialled))

    def apply_batch(self, batch: Batch) -> Iterator[None]:
        if self.life != self._turns_life:
            yield
        self._apply_batch(batch)

    def restore(self, restore: Restore) -> Iterator[None]:
        self._restore(restore.zxid)
        if self.life != self._turns_life:
            yield

    def activate(self, ensemble: Ensemble) -> None:
        self._activate(ensemble)
        self._applier.activate(ensemble)

    def carried_out(self, ready: Ready, now: Millis) -> None:
        self._conclude(ready)

    def token_in_run(self, number: int) -> int:
        """Return a number for a barrier that is unique in the run."""
        return number | (self.life << 8 | self.id) << _TOKEN_BITS

    def _answer(self, barrier: BarrierDone) -> None:
        super()._answer(BarrierDone(self.token_in_run(barrier.token), barrier.zxid))

    def _send_log(self, to: ServerId, message: SendLog) -> None:
        super()._send_log(to, message)
        channel = self.channels.accepted.get(to)
        if channel is not None and channel.over:  # the log was purged, so the link was closed
            self._link_lost(self.channels.down(to, dialled=False))

    def report_change(self, batch: Batch) -> None:
        if batch.first > self._reported_change:
            self._reported_change = batch.first
            super().report_change(batch)

    # -- the machine -----------------------------------------------------------------------------------

    def _feed(self, batch: Batch) -> None:
        for _ in self._applier.apply_batch(batch):
            raise AssertionError("a turn takes no virtual time, but the batch applier pauses")

    def _count_applied(self, count: int, _bytes: int) -> None:
        self.machine.count += count

    def _on_membership(self, ensemble: Ensemble, zxid: Zxid | None) -> None:
        self.client_port.config_node.on_membership(ensemble, zxid)

    def _become(self, zxid: Zxid) -> None:
        chunks = self.storage.read_snapshot(zxid)
        self.machine.restore(chunks)
        self.world.jumped(self.id, zxid)


def _brief(message: object) -> object:
    """Return a short form of a message for the trace: forwarded requests become a range of numbers."""
    if isinstance(message, Forward):
        return f"Forward epoch {message.epoch} {message.first}..{message.first + len(message.requests) - 1}"
    return message
