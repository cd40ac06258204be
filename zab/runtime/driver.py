"""The driver of a member: it takes the waiting input, lets `MemberTurn` order a turn, and carries out the effects.

A turn takes all waiting input. So the busier a member is, the more work shares one batch, one fsync and one send per
link. A turn waits in two cases only: while a received snapshot is restored, and after it has applied transactions or
prepared requests for so long that other tasks must run. So `Driver.turn` is a generator that yields a reason whenever
it has to wait; `TurnRunner` decides which task runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from zab.core.messages import LinkDown, LinkUp
from zab.core.node import Node
from zab.core.ready import HangUp, Ready
from zab.core.zxid import Millis, Ticket
from zab.host.logs import Log
from zab.runtime.deadline_alarm import DeadlineAlarm
from zab.runtime.inbox import Inbox
from zab.runtime.link import Link
from zab.runtime.links import Links
from zab.runtime.snapshot_finder import SnapshotFinder
from zab.runtime.snapshot_restorer import SnapshotRestorer
from zab.runtime.snapshot_taker import SnapshotTaker
from zab.runtime.writer import Writer
from zab.service.batch_applier import BatchApplier, Pause, TurnWait
from zab.service.forwarding.request_path import RequestPath
from zab.service.health.role_reporter import RoleReporter
from zab.service.member_turn import MemberTurn
from zab.storage.storage import Storage


class Driver:
    """Gives a node its input, and carries out its Readies."""

    def __init__(
        self,
        node: Node,
        inbox: Inbox,
        storage: Storage,
        writer: Writer,
        links: Links,
        requests: RequestPath,
        applier: BatchApplier,
        restorer: SnapshotRestorer,
        snapshots: SnapshotTaker,
        finder: SnapshotFinder,
        roles: RoleReporter,
        alarm: DeadlineAlarm,
        log: Log,
        clock: Callable[[], float],
    ) -> None:
        self._node = node
        self._inbox = inbox
        self._storage = storage
        self._writer = writer
        self._links = links
        self._requests = requests
        self._applier = applier
        self._snapshots = snapshots
        self._finder = finder
        self._roles = roles
        self._alarm = alarm
        self._log = log
        self._clock = clock
        self._member_turn = MemberTurn[TurnWait](node, requests, self)
        self.apply_batch, self.activate, self.restore = applier.apply_batch, applier.activate, restorer.restore
        """The `TurnEffects` that other parts of the member carry out."""
        self._saved: Ticket = 0
        """The ticket of the last write that is durable. It never decreases."""
        self._reported_saved: Ticket = 0
        """The ticket of the last write that was reported to the node as durable: at most `_saved`."""

    def saved(self, ticket: Ticket) -> None:
        """Record that all writes up to `ticket` are durable. The next turn reports this to the node."""
        self._saved = ticket

    def turn(self, started: float) -> Iterator[TurnWait]:
        """Carry out one turn. Yield a reason whenever it has to wait, and continue when that is over.

        All waiting input comes first, so that one Ready covers it. The node's `tick` comes next, after the messages
        that may have made its deadline obsolete. Then `MemberTurn` orders the rest. A new role is reported when its
        effects are complete.
        """
        node, requests, alarm = self._node, self._requests, self._alarm
        now = int(started * 1000)
        self._applier.begin_turn(started)
        requests.queue.begin(started)
        self._take_input(now)
        steady = self._roles.role.serving
        if (now >= alarm.at or not steady) and now >= node.deadline:
            self._tick(now)
        steady = yield from self._member_turn.steps(now, steady=steady)
        if self._links.unsent:
            self._links.flush()
        if not steady:
            self._roles.report()
            alarm.advance()
        if self._snapshots.schedule.due:
            self._snapshots.start(node.applied, node.digest(), self._applier.machine.snapshot)
        if requests.queue.cut:
            yield Pause.TURN_AGAIN

    # -- input ------------------------------------------------------------------------------------

    def _take_input(self, now: Millis) -> None:
        node, inbox = self._node, self._inbox
        for source, messages in inbox.take():
            if isinstance(source, Link):
                self._on_messages(source, messages, now)
            else:
                for message in messages:
                    node.step(source, message, now)
        if self._saved > self._reported_saved:
            self._report_saved(now)
        if inbox.jobs:
            for job in inbox.take_jobs():
                job(now)

    def _tick(self, now: Millis) -> None:
        for peer, moved in self._links.progress():
            self._node.progress(peer, moved, now)
        self._node.tick(now)

    def _report_saved(self, now: Millis) -> None:
        self._reported_saved = self._saved
        if not self._roles.role.serving:
            self._node.holds(self._storage.held)
        self._node.saved(self._saved, now)

    def _on_messages(self, link: Link, messages: list[Any], now: Millis) -> None:
        node, handlers = self._node, self._requests.handlers
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
                if node.synchronizes_with(link.peer):
                    settings = node.settings
                    limits = {"init_ms": settings.init_ms, "sync_ms": settings.sync_ms}
                    self._log.warn_rate_limited(
                        "synchronization_cut", link.peer, peer=link.peer, why=link.reason, **link.pace(), **limits
                    )
                elif link.at_fault:
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
        self._node.step(link.peer, LinkDown(link.dialled), now)

    # -- effects ----------------------------------------------------------------------------------

    def begin(self, ready: Ready) -> None:
        for note in ready.notes:
            self._log.note(note)
        if ready.apply:
            self._applier.begin_turn(self._clock())
        if ready.send:
            self._roles.discard_old_votes()

    def send_and_save(self, ready: Ready) -> None:
        if ready.send:
            self._links.send(ready.send, self._applier.machine.snapshot)
        for action in ready.links:
            closed = self._links.act(action)
            if closed is not None and isinstance(action, HangUp):
                self._requests.on_link_down(closed)
        if self._links.unsent:
            self._links.flush()
        if ready.save and self._writer.put(ready.save):
            self._saved = ready.save[-1].ticket

    def find_snapshots(self, ready: Ready) -> None:
        if ready.sends_state:
            node = self._node
            self._snapshots.start_spare(node.applied, node.digest(), self._applier.machine.snapshot)
        if ready.finds:
            self._finder.ask(ready.finds)

    def carried_out(self, ready: Ready, now: Millis) -> None:
        if self._saved > self._reported_saved:
            self._report_saved(now)
