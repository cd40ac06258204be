"""The one task that owns a node: everything that happened goes in, everything that should happen comes out.

A turn takes all that has gathered, so the busier a member is, the more it does at one go: one batch, one
fsync, one send per link. Nothing in a turn waits, but for two things: becoming a received snapshot, and a long
history to be applied. So whoever is awake because something arrived has the turn at once, by a call (see `ears`), and
only a turn that has to wait needs the task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import partial
from typing import Any, Final, TypeAlias

import trio

from zab.core.batch import Batch
from zab.core.ensemble import Ensemble
from zab.core.messages import ALIVE, LinkDown, LinkUp, Notification, State
from zab.core.node import Node
from zab.core.outbox import NOTHING
from zab.core.ready import Activate, Append, Apply, Envelope, HangUp, Ready, Restore
from zab.core.zxid import Millis, Ticket, Zxid, show
from zab.runtime.doorbell import Doorbell
from zab.runtime.elections import Elections
from zab.runtime.host import REAL_HOST, Host
from zab.runtime.inbox import Inbox
from zab.runtime.link import Link
from zab.runtime.links import Links
from zab.runtime.logs import Log
from zab.runtime.machine import Describes, Machine
from zab.runtime.pace import beside_the_loop
from zab.runtime.requests import RELAYS, Requests
from zab.runtime.snapshots import Snapshots
from zab.runtime.status import RoleChange
from zab.runtime.watchdog import STALL_S, Watchdog
from zab.runtime.writer import Writer
from zab.storage.storage import Storage
from zab.wire.relay import TAG, TAG_BYTES

APPLY_S: Final = 0.02
"""So long a turn applies what is committed before it lets others have the loop."""


# A member of an enum is looked up slowly, and this one with everything that is sent.
_LOOKING: Final = State.LOOKING
_unpack_tag: Final = TAG.unpack_from


def now_ms() -> Millis:
    return int(trio.current_time() * 1000)


Membership: TypeAlias = Callable[[Ensemble, Zxid | None], None]
"""Which one is in force; or which one stands in the history at a zxid, now that everything before it is applied."""


def unconcerned(ensemble: Ensemble, zxid: Zxid | None) -> None:
    """Nobody cares here."""


class Pause(Enum):
    """What a turn may have to wait for, beside a `Restore`."""

    LET_OTHERS = "whoever else wants the loop"


Wish: TypeAlias = Restore | Pause


def _trio_time(deadline: Millis) -> float:
    """Half a millisecond later than asked for, so that whole milliseconds do not say "not yet"."""
    return (deadline + 0.5) / 1000


def _is_common(ready: Ready) -> bool:
    """Of a server that serves, as nearly all are: it leaves the role, its deadline and the links as they were.

    Who is synchronized with a snapshot is noted, so that here nothing that is sent has to wait for what is applied.
    """
    if ready.notes or ready.links or ready.barriers:
        return False
    for write in ready.save:
        if type(write) is not Append:
            return False
    apply = ready.apply
    return not apply or (len(apply) == 1 and type(apply[0]) is Apply)


def unmoved() -> None:
    """Nobody cares for turns."""


class Driver:
    def __init__(
        self,
        node: Node,
        machine: Machine,
        storage: Storage,
        bell: Doorbell,
        inbox: Inbox,
        links: Links,
        elections: Elections,
        requests: Requests,
        log: Log,
        changed: Callable[[RoleChange], None],
        activated: Callable[[Ensemble], None],
        watchdog: Watchdog,
        host: Host = REAL_HOST,
    ) -> None:
        self.node = node
        self.turns = self.applied = self.applied_bytes = self.restores = 0
        self.turning = False
        self.turned: Callable[[], None] = unmoved
        self.restoring: trio.Event | None = None
        """Set while the machine is being replaced, in a thread: until then nobody may look at it."""
        self._machine = machine
        self._storage = storage
        self._bell = bell
        self._inbox = inbox
        self._links = links
        self._elections = elections
        self._requests = requests
        self._log = log
        self._changed = changed
        self._activated = activated
        self._watchdog = watchdog
        self._host = host
        self.membership: Membership = unconcerned
        self.role = RoleChange(node.state, node.epoch, node.leader, node.serving)
        self._voting = node.voting
        self._alarm_at: Millis = node.deadline
        self._alarm_scope = trio.CancelScope()
        self._saved: Ticket = 0
        self._told_saved: Ticket = 0
        self._halted: tuple[Iterator[Wish], Wish] | None = None
        """A turn that waits, and what for."""
        self._pause_at = 0.0
        """The time at which applying lets others have the loop."""
        self._failure: Exception | None = None
        """Of a turn that somebody else had for the task."""
        self._writer: Writer
        self._snapshots: Snapshots
        self._nursery: trio.Nursery
        self._time: Callable[[], float]

    def saved(self, ticket: Ticket) -> None:
        """For the writer, called in the event loop. The turn that follows is had at once, while somebody is awake."""
        self._saved = ticket
        bell = self._bell
        if not bell.hold():
            bell.ring()
            return
        try:
            if not self.turn():
                bell.ring()
        except Exception as error:  # not for whoever tells this: the task raises it
            self._failure = error
            bell.ring()
        finally:
            bell.release()

    # -- the task ----------------------------------------------------------------------------------

    async def run(self, writer: Writer, snapshots: Snapshots, nursery: trio.Nursery) -> None:
        self._writer, self._snapshots, self._nursery = writer, snapshots, nursery
        self._time = trio.lowlevel.current_clock().current_time
        node, bell = self.node, self._bell
        node.tick(now_ms())  # what it concluded when it was made: alone in the world, it leads at once
        bell.ring()
        nursery.start_soon(self._alarm)
        while True:
            await bell.wait()
            if self._failure is not None:
                raise self._failure
            if self._halted is None:
                self.turn()
            while self._halted is not None:
                turn, wish = self._halted
                if isinstance(wish, Restore):
                    await self._restore(wish)
                else:
                    await trio.lowlevel.checkpoint()
                self._go_on(turn)

    def turn(self) -> bool:
        """Do what the bell was rung for. False: it has to wait, and the task does the rest: ring again."""
        assert self._halted is None, "a turn that waits comes first"
        return self._go_on(self._turn())

    def _go_on(self, turn: Iterator[Wish]) -> bool:
        dog, desk = self._watchdog, self._requests.desk
        started, stalls, applied, proposed = self._time(), dog.stalls, self.applied, desk.proposed
        self.turning = True
        self._halted = None
        try:
            for wish in turn:
                self._halted = turn, wish
                if isinstance(wish, Restore):
                    self.restoring = trio.Event()
                break
        finally:
            # An exception ends the member, which others hear of only if they do not wait for the end of this turn.
            self.turning = False
        # Others have their turn now: whatever was answered until here is theirs.
        self.turned()
        dog.turns += 1
        if dog.stalls == stalls:  # else the request at fault is reported already
            dog.took(
                self._time() - started,
                lambda: f"applying {self.applied - applied} transactions, proposing {desk.proposed - proposed}",
            )
        return self._halted is None

    async def _alarm(self) -> None:
        """Rings when the deadline has come. A time-out around the wait of each turn would cost a tenth of the turn."""
        node = self.node
        while True:
            self._alarm_at = node.deadline
            with trio.CancelScope(deadline=_trio_time(self._alarm_at)) as self._alarm_scope:
                await trio.sleep_forever()
            if now_ms() >= node.deadline:
                self._bell.ring()
                await trio.sleep(0.001)  # the turn comes first, and moves the deadline

    def _turn(self) -> Iterator[Wish]:
        node, requests = self.node, self._requests
        started = self._time()
        self._pause_at = started + APPLY_S
        now = int(started * 1000)
        self.turns += 1
        requests.desk.begin()
        for source, messages in self._inbox.take():
            if isinstance(source, Link):
                self._hear(source, messages, now)
            else:
                for message in messages:
                    node.step(source, message, now)
        if self._saved > self._told_saved:
            self._tell_saved(now)
        as_ever = self.role.serving
        if (now >= self._alarm_at or not as_ever) and now >= node.deadline:
            for peer, moved in self._links.progress():
                node.progress(peer, moved, now)
            node.tick(now)
        requests.turn(now)
        if requests.waiting:
            requests.ask(now)
        while node.stirred:
            ready = node.ready()
            if ready is NOTHING:
                break
            apply = ready.apply
            if as_ever and _is_common(ready):
                self._send_and_save(ready)
                if apply:
                    batch = apply[0].batch  # type: ignore[union-attr]
                    yield from self._apply_batch(batch)
                    requests.reached(batch.last)
            else:
                as_ever = False
                yield from self._perform(ready)
            if self._saved > self._told_saved:
                self._tell_saved(now)
            if apply or not as_ever:
                requests.turn(now)
        if self._links.unsent:
            self._links.flush()
        if not as_ever:
            self._watch()
            if node.deadline < self._alarm_at:
                self._alarm_at = node.deadline
                self._alarm_scope.deadline = _trio_time(self._alarm_at)
        if self._snapshots.due:
            self._snapshots.start(self._nursery, node.applied, node.digest(), self._machine.snapshot())
        if requests.desk.cut:
            self._bell.ring()  # the rest is for a turn of its own
            yield Pause.LET_OTHERS

    def _tell_saved(self, now: Millis) -> None:
        self._told_saved = self._saved
        self.node.saved(self._saved, now)

    def _hear(self, link: Link, messages: list[Any], now: Millis) -> None:
        node, requests = self.node, self._requests
        for message in messages:
            if link.over:
                return
            relay = RELAYS.get(type(message))
            if relay is not None:
                relay(requests, link, message, now)
                continue
            if type(message) is LinkUp:
                self._log.say("link_up", "debug", peer=link.peer, dialled=link.dialled)
                if not link.dialled:
                    old = self._links.accept(link)
                    if old is not None:
                        self._lost(old, now)
            elif type(message) is LinkDown:
                if link.at_fault:
                    self._log.grumble("link_cut", link.peer, peer=link.peer, dialled=link.dialled, why=link.reason)
                else:
                    self._log.say("link_down", "debug", peer=link.peer, dialled=link.dialled, why=link.reason)
                self._links.lost(link)
                self._lost(link, now)
                return
            node.step(link.peer, message, now)

    def _lost(self, link: Link, now: Millis) -> None:
        self._requests.link_lost(link)
        self.node.step(link.peer, LinkDown(link.dialled), now)

    # -- what the node wants -------------------------------------------------------------------------

    def _perform(self, ready: Ready) -> Iterator[Wish]:
        """Nothing in it waits for anything else in it, so the peers, who have the longest way, come first."""
        for note in ready.notes:
            self._log.note(note)
        apply = self._apply(ready) if ready.apply else ()
        if ready.wants_state:
            yield from apply
        self._send_and_save(ready)
        yield from apply
        for barrier in ready.barriers:
            self._requests.barrier_done(barrier.token, barrier.zxid)

    def _send_and_save(self, ready: Ready) -> None:
        if ready.send:
            self._send(ready.send)
        for wish in ready.links:
            gone = self._links.act(wish)
            if gone is not None and isinstance(wish, HangUp):
                self._requests.link_lost(gone)
        if self._links.unsent:
            self._links.flush()
        if ready.save and self._writer.put(ready.save):
            self._saved = ready.save[-1].ticket

    def _send(self, envelopes: Sequence[Envelope]) -> None:
        if self.role.state is _LOOKING and self.node.state is not _LOOKING:
            self._elections.settled()
        for envelope in envelopes:
            if type(envelope.message) is Notification:
                self._elections.send(envelope.to, envelope.message)
        self._links.send(envelopes, self._machine.snapshot)

    def _apply(self, ready: Ready) -> Iterator[Wish]:
        zxid: Zxid | None = None
        self._pause_at = self._time() + APPLY_S
        for item in ready.apply:
            if isinstance(item, Apply):
                yield from self._apply_batch(item.batch)
                zxid = item.batch.last
            elif isinstance(item, Activate):
                self._requests.changes.activated(item.ensemble.version)
                self._activated(item.ensemble)
                self.membership(item.ensemble, None)
            else:
                yield item
                zxid = item.zxid
        if zxid is not None:
            self._requests.reached(zxid)

    def _apply_batch(self, batch: Batch) -> Iterator[Wish]:
        """After a restart, or far behind, it is a whole log, while somebody else's tasks wait for the loop."""
        payloads = batch.payloads()
        count, size = batch.count, len(batch.body)
        self._snapshots.count(count, size)
        self.applied += count
        self.applied_bytes += size
        self._storage.know_committed(batch.last)
        if batch.config:
            (text,) = payloads
            self.membership(Ensemble.parse(text.decode()), batch.last)
            return
        apply, origin = self._machine.apply, self._requests.origin
        mine, applied, time = origin.tag, origin.applied, self._time
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
        """In a thread, so that the rest of the application lives on; this member has nothing else to do."""
        assert self.restoring is not None
        chunks = self._storage.read_snapshot(restore.zxid)
        reports = trio.CancelScope()
        self._nursery.start_soon(self._report_alive, reports)
        try:
            with beside_the_loop():
                await self._host.in_thread(partial(self._machine.restore, chunks), limiter=trio.CapacityLimiter(1))
        finally:
            reports.cancel()
        self.restoring.set()
        self.restoring = None
        self.restores += 1
        self._storage.know_committed(restore.zxid)
        self._snapshots.restored()
        self._requests.origin.jumped()
        self._requests.changes.jumped(restore.zxid)

    async def _report_alive(self, scope: trio.CancelScope) -> None:
        """Tell the leader that this learner is at work, while no turn can: a large machine is restored for minutes."""
        with scope:
            while True:
                await trio.sleep(max(1, self.node.settings.tick_ms // 2) / 1_000)
                self._links.report(ALIVE)

    # -- after a turn --------------------------------------------------------------------------------

    def _watch(self) -> None:
        node, role = self.node, self.role
        _, state, epoch, leader, serving = node.standing()
        if state is not role.state or serving is not role.serving or epoch != role.epoch or leader != role.leader:
            level = "warning" if role.serving and not serving else "info"
            self.role = RoleChange(state, epoch, leader, serving)
            self._log.say("role", level, state=state.name, leader=leader, serving=serving)
            self._changed(self.role)
        if node.voting is not self._voting:
            self._voting = node.voting
            if node.voting:
                self._log.say("healed", why="the others gave this server its history: it votes again")
