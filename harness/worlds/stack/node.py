"""A node that tells the checkers what goes in and what comes out. Otherwise it is the node that is shipped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from zab.core.ensemble import Ensemble
from zab.core.messages import LeaderInfo, LinkEvent, Message, Notification, State
from zab.core.node import Node
from zab.core.ready import Append, Apply, InstallSnapshot, Ready, Recovered, Settings, Truncate, Write
from zab.core.zxid import Epoch, Millis, ServerId, Ticket, Zxid, epoch_of

if TYPE_CHECKING:
    from harness.worlds.stack.server import Life

_NOTHING: Final = Ready()


class ToldNode(Node):
    def __init__(
        self,
        life: Life,
        me: ServerId,
        ensemble: Ensemble,
        recovered: Recovered,
        settings: Settings,
        jitter: Callable[[Millis], Millis],
        now: Millis,
    ) -> None:
        self._life = life
        self._server = life.server
        self._world = life.server.world
        self._judge = life.server.world.judge
        self._seen: tuple[State, Epoch, ServerId | None, bool] = (State.LOOKING, Epoch(0), None, False)
        self._told_committed = recovered.snapshot
        self._leads = self._served = self._broadcasts = False
        super().__init__(me, ensemble, recovered, settings, jitter, now)

    # -- what goes in ------------------------------------------------------------------------------

    def step(self, source: ServerId, message: Message | LinkEvent, now: Millis) -> None:
        if self._life.dead:
            return
        self._world.record(self.me, "hears", source, message)
        if type(message) is LeaderInfo:
            self._judge.heard_leader_info(self.me, message.epoch)
        super().step(source, message, now)

    def saved(self, ticket: Ticket, now: Millis) -> None:
        if not self._life.dead:
            self._world.record(self.me, "saved", 0, ticket)
            super().saved(ticket, now)

    def propose(self, payloads: Sequence[bytes], now: Millis) -> Zxid:
        self._performed()
        first = super().propose(payloads, now)
        self._judge.proposed(self.me, first, payloads)
        self._judge.broadcasts(self.me, self.epoch)
        return first

    # -- what comes out ----------------------------------------------------------------------------

    def ready(self) -> Ready:
        if self._life.dead:
            return _NOTHING
        self._world.step()
        self._performed()
        ready = super().ready()
        for write in ready.save:
            self._tell_write(write)
        self._tell_state()
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
            if isinstance(what, Apply):
                self._life.fed.expect(what.batch)
        return ready

    def _performed(self) -> None:
        """The driver is done with what it was handed last: who serves has applied it, and so has who proposed."""
        if self._broadcasts:
            self._broadcasts = False
            self._judge.broadcasts(self.me, self.epoch)
        if self._served is not self._seen[3]:
            self._served = not self._served
            if self._served:
                self._judge.serves(self.me)

    def _tell_write(self, write: Write) -> None:
        judge, sid = self._judge, self.me
        self._world.record(sid, "saves", 0, write)
        if isinstance(write, Append):
            batch = write.batch
            judge.appended(sid, batch)
            if batch.config and self.leader == sid and epoch_of(batch.first) == self.epoch:
                judge.proposed(sid, batch.first, batch.payloads())
                self._broadcasts = True
        elif isinstance(write, Truncate):
            judge.truncated(sid, write.zxid)
        elif isinstance(write, InstallSnapshot):
            judge.installed(sid, write.zxid)

    def _tell_state(self) -> None:
        """First what it committed, while it is still taken for what it was: a leader may end by committing."""
        judge, committed = self._judge, self.committed
        if committed != self._told_committed:
            self._told_committed = committed
            judge.committed(self.me, committed, self.leader == self.me or self._leads)
        seen = (self.state, self.epoch, self.leader, self.serving)
        if seen != self._seen:
            self._seen = seen
            self._leads = self.leader == self.me
            judge.role(self.me, *seen)
