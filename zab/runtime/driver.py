"""The one task that owns a node: everything that happened goes in, everything that should happen comes out.

A turn takes all that has gathered, so the busier a member is, the more it does at one go: one batch, one
fsync, one send per link. Nothing in a turn waits, but for two things: becoming a received snapshot, and a long
history to be applied. So the reader of sockets takes the turn at once, by a call (see `zab.net.socket_reader`). Only a
turn that has to wait needs the task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import partial
from typing import Any, Final, TypeAlias

import trio
from attrs import define, evolve

from zab.core.batch import Batch
from zab.core.ensemble import Ensemble
from zab.core.errors import LocalProtocolError
from zab.core.messages import ALIVE, LinkDown, LinkUp, Notification, State, Veto
from zab.core.node import Node
from zab.core.outbox import NOTHING
from zab.core.ready import (
    Activate,
    Append,
    Apply,
    Envelope,
    FindSnapshot,
    FoundSnapshot,
    HangUp,
    Ready,
    Restore,
)
from zab.core.zxid import Millis, Ticket, Zxid, show
from zab.host.clocks import now_ms
from zab.host.logs import Log
from zab.host.pace import beside_the_loop
from zab.host.watchdog import STALL_S, Watchdog
from zab.net.wakeup import Wakeup
from zab.runtime.election_links import ElectionLinks
from zab.runtime.environment import REAL_ENVIRONMENT, Environment
from zab.runtime.inbox import Inbox
from zab.runtime.link import Link
from zab.runtime.links import Links
from zab.runtime.snapshot_taker import SnapshotTaker
from zab.runtime.status import RoleChange
from zab.runtime.writer import Writer
from zab.service.replicated_machine import Describes, Machine
from zab.service.request_path import RequestPath
from zab.service.side_channel import MessageHandler, ignore_message
from zab.storage.storage import Storage
from zab.wire.relay import TAG, TAG_BYTES

APPLY_S: Final = 0.02
"""So long a turn applies what is committed before it lets others have the loop."""


# A member of an enum is looked up slowly, and this one with everything that is sent.
_LOOKING: Final = State.LOOKING
_unpack_tag: Final = TAG.unpack_from


OnMembership: TypeAlias = Callable[[Ensemble, Zxid | None], None]
"""Called with None when a membership is in force, and with its zxid when everything before it is applied."""


def ignore_membership(ensemble: Ensemble, zxid: Zxid | None) -> None:
    """The application does not use memberships."""


def ignore_turn() -> None:
    """The application does not use turns."""


@define
class Hooks:
    """The functions of the application that a member calls, in the event loop."""

    on_leader_message: MessageHandler = ignore_message
    on_member_message: MessageHandler = ignore_message
    on_membership: OnMembership = ignore_membership
    on_turn: Callable[[], None] = ignore_turn
    """At the end of each turn."""


class Pause(Enum):
    """A reason for a turn to wait, beside a `Restore`."""

    LET_OTHERS = "other tasks need the loop"


PendingWait: TypeAlias = Restore | Pause


def _trio_time(deadline: Millis) -> float:
    """Return the deadline plus half a millisecond, so that it is over in whole milliseconds when the alarm rings."""
    return (deadline + 0.5) / 1000


def _is_common(ready: Ready) -> bool:
    """Fast path: this Ready changes no role, deadline or link.

    A synchronization with a snapshot comes with a note, so here no message has to wait for what is applied.
    """
    if ready.notes or ready.links or ready.barriers or ready.finds:
        return False
    for write in ready.save:
        if type(write) is not Append:
            return False
    apply = ready.apply
    return not apply or (len(apply) == 1 and type(apply[0]) is Apply)


class Driver:
    """In: the inbox, saved tickets and deadlines, all announced by the wakeup. Out: what the node's Readies ask for."""

    def __init__(
        self,
        node: Node,
        machine: Machine,
        storage: Storage,
        wakeup: Wakeup,
        inbox: Inbox,
        links: Links,
        elections: ElectionLinks,
        requests: RequestPath,
        log: Log,
        writer: Writer,
        snapshots: SnapshotTaker,
        on_role: Callable[[RoleChange], None],
        on_activation: Callable[[Ensemble], None],
        hooks: Hooks,
        watchdog: Watchdog,
        clock: Callable[[], float],
        environment: Environment = REAL_ENVIRONMENT,
    ) -> None:
        self.node = node
        self.turns = self.applied = self.applied_bytes = self.restores = 0
        self.turning = False
        """A turn is under way."""
        self.restoring: trio.Event | None = None
        """Set while a thread replaces the machine's state: until then nothing may read it."""
        self._machine = machine
        self._storage = storage
        self._wakeup = wakeup
        self._inbox = inbox
        self._links = links
        self._elections = elections
        self._requests = requests
        self._log = log
        self._writer = writer
        self._snapshots = snapshots
        self._on_role = on_role
        self._on_activation = on_activation
        self._hooks = hooks
        self._watchdog = watchdog
        self._time = clock
        self._environment = environment
        self.role = RoleChange(node.state, node.epoch, node.leader, node.serving)
        self._voting = node.voting
        self._alarm_at: Millis = node.deadline
        self._alarm_scope = trio.CancelScope()
        self._decisions: list[Callable[[Veto | None, Exception | None], None]] = []
        """Operators that want this server's history given up, to be called with the outcome."""
        self._saved: Ticket = 0
        self._reported_saved: Ticket = 0
        self._questions: list[FindSnapshot] = []
        """The questions that wait for their turn."""
        self._asked = Wakeup()
        self._found: list[tuple[FindSnapshot, FoundSnapshot | None]] = []
        """Answers that the node does not have yet."""
        self._halted: tuple[Iterator[PendingWait], PendingWait] | None = None
        """A turn that waits, and its reason."""
        self._pause_at = 0.0
        """The time at which the turn stops to apply and lets other tasks run."""
        self._failure: Exception | None = None
        """Raised by a turn that another task ran; `run` raises it."""

    def saved(self, ticket: Ticket) -> None:
        """Handle the writer's report, in the event loop. The turn that follows runs at once, in the caller's task."""
        self._saved = ticket
        wakeup = self._wakeup
        if not wakeup.hold():
            wakeup.ring()
            return
        try:
            if not self.turn():
                wakeup.ring()
        except Exception as error:  # it is not the caller's: `run` raises it
            self._failure = error
            wakeup.ring()
        finally:
            wakeup.release()

    def give_up_history(self, done: Callable[[Veto | None, Exception | None], None]) -> None:
        """Give the history up in the next turn: ring the wakeup."""
        self._decisions.append(done)

    # -- the task ----------------------------------------------------------------------------------

    async def run(self) -> None:
        wakeup = self._wakeup
        self.node.tick(now_ms())  # a server that is alone leads at once
        wakeup.ring()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._ring_at_deadline)
            nursery.start_soon(self._find_snapshots)
            while True:
                await wakeup.wait()
                if self._failure is not None:
                    raise self._failure
                if self._halted is None:
                    self.turn()
                while self._halted is not None:
                    turn, reason = self._halted
                    if isinstance(reason, Restore):
                        await self._restore(reason)
                    else:
                        await trio.lowlevel.checkpoint()
                    self._continue(turn)

    def turn(self) -> bool:
        """Run one turn. False: it has to wait, and the driver's task finishes it: ring the wakeup."""
        assert self._halted is None, "a turn that waits comes first"
        return self._continue(self._turn())

    def _continue(self, turn: Iterator[PendingWait]) -> bool:
        watchdog, queue = self._watchdog, self._requests.queue
        started, stalls, applied, proposed = self._time(), watchdog.stalls, self.applied, queue.proposed
        self.turning = True
        self._halted = None
        try:
            for reason in turn:
                self._halted = turn, reason
                if isinstance(reason, Restore):
                    self.restoring = trio.Event()
                break
        finally:
            # An exception ends the member. Other tasks learn of it only if they do not wait for the end of this turn.
            self.turning = False
        self._hooks.on_turn()
        watchdog.turns += 1
        if watchdog.stalls == stalls:  # else the request at fault is reported already
            watchdog.took(
                self._time() - started,
                lambda: f"applying {self.applied - applied} transactions, proposing {queue.proposed - proposed}",
            )
        return self._halted is None

    async def _ring_at_deadline(self) -> None:
        """Ring at the node's deadline. A timeout around the wait of each turn would cost a tenth of the turn."""
        node = self.node
        while True:
            self._alarm_at = node.deadline
            with trio.CancelScope(deadline=_trio_time(self._alarm_at)) as self._alarm_scope:
                await trio.sleep_forever()
            if now_ms() >= node.deadline:
                self._wakeup.ring()
                await trio.sleep(0.001)  # the turn comes first, and moves the deadline

    def _turn(self) -> Iterator[PendingWait]:
        node, requests = self.node, self._requests
        started = self._time()
        self._pause_at = started + APPLY_S
        now = int(started * 1000)
        self.turns += 1
        requests.queue.begin()
        for source, messages in self._inbox.take():
            if isinstance(source, Link):
                self._on_messages(source, messages, now)
            else:
                for message in messages:
                    node.step(source, message, now)
        if self._saved > self._reported_saved:
            self._report_saved(now)
        if self._found:
            for question, found in self._found:
                node.found(question, found, now)
            self._found.clear()
        steady = self.role.serving
        if (now >= self._alarm_at or not steady) and now >= node.deadline:
            for peer, moved in self._links.progress():
                node.progress(peer, moved, now)
            node.tick(now)
        for done in self._take_decisions():
            try:
                done(node.give_up_history(now), None)
            except LocalProtocolError as error:
                done(None, error)
        requests.turn(now)
        if requests.barriers.waiting:
            requests.ask_barrier(now)
        while node.has_ready:
            ready = node.ready()
            if ready is NOTHING:
                break
            apply = ready.apply
            if steady and _is_common(ready):
                self._send_and_save(ready)
                if apply:
                    batch = apply[0].batch  # type: ignore[union-attr]
                    yield from self._apply_batch(batch)
                    requests.reached(batch.last)
            else:
                steady = False
                yield from self._perform(ready)
            if self._saved > self._reported_saved:
                self._report_saved(now)
            if apply or not steady:
                requests.turn(now)
        if self._links.unsent:
            self._links.flush()
        if not steady:
            self._report_role()
            if node.deadline < self._alarm_at:
                self._alarm_at = node.deadline
                self._alarm_scope.deadline = _trio_time(self._alarm_at)
        if self._snapshots.due:
            self._snapshots.start(node.applied, node.digest(), self._machine.snapshot())
        if requests.queue.cut:
            self._wakeup.ring()  # another turn does the rest
            yield Pause.LET_OTHERS

    def _take_decisions(self) -> list[Callable[[Veto | None, Exception | None], None]]:
        taken, self._decisions = self._decisions, []
        return taken

    def _report_saved(self, now: Millis) -> None:
        self._reported_saved = self._saved
        if not self.role.serving:
            self.node.holds(self._storage.held)
        self.node.saved(self._saved, now)

    def _on_messages(self, link: Link, messages: list[Any], now: Millis) -> None:
        node, handlers = self.node, self._requests.handlers
        for message in messages:
            if link.over:
                return
            handler = handlers.get(type(message))
            if handler is not None:
                handler(link, message, now)
                continue
            if type(message) is LinkUp:
                self._log.say("link_up", "debug", peer=link.peer, dialled=link.dialled)
                if not link.dialled:
                    old = self._links.accept(link)
                    if old is not None:
                        self._on_link_down(old, now)
            elif type(message) is LinkDown:
                if link.at_fault:
                    self._log.warn_rate_limited(
                        "link_cut", link.peer, peer=link.peer, dialled=link.dialled, why=link.reason
                    )
                else:
                    self._log.say("link_down", "debug", peer=link.peer, dialled=link.dialled, why=link.reason)
                self._links.lost(link)
                self._on_link_down(link, now)
                return
            node.step(link.peer, message, now)

    def _on_link_down(self, link: Link, now: Millis) -> None:
        self._requests.on_link_down(link)
        self.node.step(link.peer, LinkDown(link.dialled), now)

    # -- what the node wants -------------------------------------------------------------------------

    def _perform(self, ready: Ready) -> Iterator[PendingWait]:
        """Act on a Ready. Nothing in it waits for anything else in it, so the slowest come first: the peers."""
        for note in ready.notes:
            self._log.note(note)
        apply = self._apply(ready) if ready.apply else ()
        if ready.wants_state:
            yield from apply
        self._send_and_save(ready)
        if ready.sends_state:
            node = self.node
            self._snapshots.start_spare(node.applied, node.digest(), self._machine.snapshot)
        if ready.finds:
            self._questions += ready.finds
            self._asked.ring()
        yield from apply
        for barrier in ready.barriers:
            self._requests.on_barrier(barrier.token, barrier.zxid)

    def _send_and_save(self, ready: Ready) -> None:
        if ready.send:
            self._send(ready.send)
        for wish in ready.links:
            gone = self._links.act(wish)
            if gone is not None and isinstance(wish, HangUp):
                self._requests.on_link_down(gone)
        if self._links.unsent:
            self._links.flush()
        if ready.save and self._writer.put(ready.save):
            self._saved = ready.save[-1].ticket

    async def _find_snapshots(self) -> None:
        """Answer the node's questions one after the other, beside the turns."""
        while True:
            if not self._questions:
                await self._asked.wait()
                continue
            question = self._questions.pop(0)
            self._found.append((question, await self._snapshots.find(question.held)))
            self._wakeup.ring()

    def _send(self, envelopes: Sequence[Envelope]) -> None:
        if self.role.state is _LOOKING and self.node.state is not _LOOKING:
            self._elections.settled()
        for envelope in envelopes:
            if type(envelope.message) is Notification:
                self._elections.send(envelope.to, envelope.message)
        self._links.send(envelopes, self._machine.snapshot)

    def _apply(self, ready: Ready) -> Iterator[PendingWait]:
        zxid: Zxid | None = None
        self._pause_at = self._time() + APPLY_S
        for item in ready.apply:
            if isinstance(item, Apply):
                yield from self._apply_batch(item.batch)
                zxid = item.batch.last
            elif isinstance(item, Activate):
                self._requests.changes.activated(item.ensemble.version)
                self._on_activation(item.ensemble)
                self._hooks.on_membership(item.ensemble, None)
            else:
                yield item
                zxid = item.zxid
        if zxid is not None:
            self._requests.reached(zxid)

    def _apply_batch(self, batch: Batch) -> Iterator[PendingWait]:
        """Apply a batch. After a restart, or far behind, these are a whole log, while other tasks wait for the loop."""
        payloads = batch.payloads()
        count, size = batch.count, len(batch.body)
        self._snapshots.count(count, size)
        self.applied += count
        self.applied_bytes += size
        self._storage.know_committed(batch.last)
        if batch.config:
            (text,) = payloads
            self._hooks.on_membership(Ensemble.parse(text.decode()), batch.last)
            return
        apply, pending = self._machine.apply, self._requests.pending
        mine, applied, time = pending.tag, pending.applied, self._time
        started = time()
        for zxid, payload in zip(batch.zxids, payloads, strict=True):
            result = apply(zxid, payload[TAG_BYTES:])
            where, counter = _unpack_tag(payload)
            if where == mine:
                applied(counter, result)
            ended = time()
            if ended - started > STALL_S:
                self._watchdog.took(ended - started, partial(self._applying, zxid, payload))
            if ended >= self._pause_at:
                yield Pause.LET_OTHERS
                ended = time()
                self._pause_at = ended + APPLY_S
            started = ended

    def _applying(self, zxid: Zxid, payload: bytes) -> str:
        machine, txn = self._machine, payload[TAG_BYTES:]
        described = machine.describe_transaction(txn) if isinstance(machine, Describes) else "a transaction"
        return f"applying {described} of {len(txn)} bytes, zxid {show(zxid)}"

    async def _restore(self, restore: Restore) -> None:
        """Restore in a thread, so that the rest of the application continues."""
        assert self.restoring is not None
        chunks = self._storage.read_snapshot(restore.zxid)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._report_alive)
            with beside_the_loop():
                await self._environment.in_thread(
                    partial(self._machine.restore, chunks), limiter=trio.CapacityLimiter(1)
                )
            nursery.cancel_scope.cancel()
        self.restoring.set()
        self.restoring = None
        self.restores += 1
        self._storage.know_committed(restore.zxid)
        self._snapshots.restored()
        self._requests.restored(restore.zxid)

    async def _report_alive(self) -> None:
        """Tell the leader that this learner is alive, while no turn can: the restore may take minutes."""
        while True:
            await trio.sleep(max(1, self.node.settings.tick_ms // 2) / 1_000)
            self._links.report(ALIVE)

    # -- after a turn --------------------------------------------------------------------------------

    def _report_role(self) -> None:
        node, role = self.node, self.role
        _, state, epoch, leader, serving = node.status()
        if state is not role.state or serving is not role.serving or epoch != role.epoch or leader != role.leader:
            level = "warning" if role.serving and not serving else "info"
            self.role = RoleChange(state, epoch, leader, serving, node.veto)
            self._log.say("role", level, state=state.name, leader=leader, serving=serving)
            self._on_role(self.role)
        elif node.veto is not role.veto:
            self.role = evolve(role, veto=node.veto)
            self._on_role(self.role)
        if node.voting is not self._voting:
            self._voting = node.voting
            if node.voting:
                self._log.say("healed", why="the others gave this server its history: it votes again")
