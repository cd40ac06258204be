"""The node as shipped, with reports of its inputs and outputs to the checkers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from harness.worlds.disks import Crashed, judge_purge
from zab.core import ready as effects
from zab.core.batch import Batch
from zab.core.ensemble import Ensemble
from zab.core.messages import Commit, CommitAndActivate, LeaderInfo, LinkEvent, Message, Notification, State
from zab.core.node import Node
from zab.core.outbox import EMPTY_READY
from zab.core.zxid import Epoch, Millis, ServerId, Ticket, Zxid, epoch_of


class ReportingNode(Node):
    def __init__(
        self,
        life: Any,
        me: ServerId,
        ensemble: Ensemble,
        recovered: effects.Recovered,
        settings: effects.Settings,
        jitter: Callable[[Millis], Millis],
        now: Millis,
    ) -> None:
        self._life = life
        self._server = life.server
        self._world = life.server.world
        self._judge = life.server.world.judge
        self._seen: tuple[State, Epoch, ServerId | None, bool] = (State.LOOKING, Epoch(0), None, False)
        self._reported_committed = recovered.snapshot
        self._reported_change = Zxid(0)
        self._leads = self._served = self._broadcasts = False
        super().__init__(me, ensemble, recovered, settings, jitter, now)

    # -- inputs ------------------------------------------------------------------------------------

    def step(self, source: ServerId, message: Message | LinkEvent, now: Millis) -> None:
        if self._life.dead:
            return
        self._world.record(self.me, "hears", source, message)
        if type(message) is LeaderInfo:
            self._judge.heard_leader_info(self.me, message.epoch)
        elif isinstance(message, Commit | CommitAndActivate):
            self._judge.heard_commit(self.me, message.zxid)
        elif type(message) is Notification:
            self._judge.heard_notification(self.me, source, message)
        super().step(source, message, now)

    def saved(self, ticket: Ticket, now: Millis) -> None:
        if not self._life.dead:
            self._world.record(self.me, "saved", 0, ticket)
            before = self.durable
            super().saved(ticket, now)
            if self.durable != before:
                self._judge.counts_durable(self.me, self.durable)

    def propose(self, payloads: Sequence[bytes], now: Millis) -> Zxid:
        self._report_performed()
        for write in self._out.save:
            if type(write) is effects.Append and write.batch.config:
                self._report_change(write.batch)  # it was proposed before these payloads, and waits to be written
        first = super().propose(payloads, now)
        self._judge.proposed(self.me, first, payloads)
        self._judge.broadcasts(self.me, self.epoch)
        return first

    def log_starts(self, zxid: Zxid) -> None:
        if not self._life.dead:
            assert self._life.writer is not None
            judge_purge(self._judge, self.me, self._server.disk, self._life.writer.spare)
        super().log_starts(zxid)

    # -- outputs -----------------------------------------------------------------------------------

    def ready(self) -> effects.Ready:
        if self._life.dead or self._life.ending:
            return EMPTY_READY
        self._world.step()
        self._report_performed()
        ready = super().ready()
        for write in ready.save:  # also those after an aimed fault: messages about them may arrive
            self._report_write(write)
        if self._server.watched:
            ready = self._cut_at_fault(ready)
        self._report_state()
        for note in ready.notes:
            self._world.noted(self._server, note)
        said = self._judge.said
        for envelope in ready.send:
            message, to = envelope.message, envelope.to
            self._world.messages += 1
            self._world.record(self.me, "tells" if isinstance(message, Notification) else "says to", to, message)
            fact = said.get(type(message))
            if fact is not None:
                fact(self.me, to, message)
        for what in ready.apply:
            if isinstance(what, effects.Apply):
                self._life.delivery_check.expect(what.batch)
            elif isinstance(what, effects.Activate):
                self._judge.activated(self.me, what.ensemble)
        return ready

    def _cut_at_fault(self, ready: effects.Ready) -> effects.Ready:
        """Cut the ready at the act at which a fault of this server is aimed, if it is among these acts."""
        world, server = self._world, self._server
        nemesis = world.nemesis
        sent = 0
        try:
            reached = self._quorum_reached()
            if reached is not None:
                nemesis.act(server, "quorum", reached)
            for envelope in ready.send:
                name = type(envelope.message).__name__
                aimed = not isinstance(envelope.message, Notification)
                if aimed:
                    nemesis.act(server, "before sending", name)
                sent += 1
                if aimed:
                    nemesis.act(server, "after sending", name)
        except Crashed as crash:
            # The messages before the act leave in the next turn of the driver's links. Then the server crashes.
            self._life.ends()
            world.push(world.now + 1, world.crashed, crash, None)
            return effects.Ready(send=ready.send[:sent])
        return ready

    def _quorum_reached(self) -> str | None:
        """Return which quorum a leader has reached in this turn, before it sends anything."""
        state, epoch, *_ = self._seen
        if self.state is not State.LEADING or self.leader != self.me:
            return None
        if state is State.LEADING and self.epoch > epoch:
            return "promised"
        return "acked" if self.serving and self.committed > self._reported_committed else None

    def _report_performed(self) -> None:
        """Report what holds after the driver has performed the last ready: that the node serves, and broadcasts."""
        if self._broadcasts:
            self._broadcasts = False
            self._judge.broadcasts(self.me, self.epoch)
        if self._served is not self._seen[3]:
            self._served = not self._served
            if self._served:
                self._judge.serves(self.me)

    def _report_write(self, write: effects.Write) -> None:
        judge, sid = self._judge, self.me
        self._world.record(sid, "saves", 0, write)
        if isinstance(write, effects.Append):
            batch = write.batch
            judge.appended(sid, batch)
            led = self.leader == sid or self._leads  # the leadership may have ended in the same turn
            if batch.config and led and epoch_of(batch.first) == self.epoch:
                self._report_change(batch)
                self._broadcasts = True
        elif isinstance(write, effects.Truncate):
            judge.truncated(sid, write.zxid)
        elif isinstance(write, effects.InstallSnapshot):
            judge.installed(sid, write.zxid)
        elif isinstance(write, effects.SaveEpochs):
            judge.goes_by(sid, write.ensemble.version)
            if not write.forgotten:
                judge.remembers(sid, write.ensemble.version)

    def _report_change(self, batch: Batch) -> None:
        """Report a membership change, which the node proposes itself."""
        if batch.first > self._reported_change:
            self._reported_change = batch.first
            self._judge.proposed(self.me, batch.first, batch.payloads())

    def _report_state(self) -> None:
        """Report the commit before the role, as a commit may end a leadership."""
        judge, committed = self._judge, self.committed
        if committed != self._reported_committed:
            self._reported_committed = committed
            judge.committed(self.me, committed, self.leader == self.me or self._leads)
        seen = (self.state, self.epoch, self.leader, self.serving)
        if seen != self._seen:
            self._seen = seen
            self._leads = self.leader == self.me
            judge.role(self.me, *seen)
