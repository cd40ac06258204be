"""Leader: learn the newest epoch promised, take a newer one, give everybody one history, then broadcast.

A leader counts itself like anybody else: when its own disk has reported back, not before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from enum import Enum
from typing import Any, Final

from attrs import evolve

from zab.core.batch import Batch, pack
from zab.core.ensemble import Ensemble
from zab.core.errors import (
    ConfigError,
    LocalProtocolError,
    NewConfigNoQuorum,
    NotLeader,
    Overloaded,
    ReconfigInProgress,
    RemoteProtocolError,
    WrongVersion,
)
from zab.core.leader.barriers import Barriers
from zab.core.leader.learner_state import LearnerState
from zab.core.log_state import LogState
from zab.core.messages import (
    ALIVE,
    RESUMES,
    Ack,
    AckEpoch,
    AckNewLeader,
    BarrierRequest,
    Commit,
    CommitAndActivate,
    Diff,
    FollowerInfo,
    Inform,
    InformAndActivate,
    LeaderInfo,
    NewLeader,
    Pong,
    Propose,
    SnapHeld,
    Trunc,
    UpToDate,
    Veto,
)
from zab.core.ready import BarrierDone, FindSnapshot, FoundSnapshot, HangUp, SendLog, SendRest, SendSnapshot
from zab.core.sync_plan import Form, SyncPlan, can_resume, plan
from zab.core.zxid import (
    EPOCH_MAX,
    UNKNOWN,
    Epoch,
    Millis,
    ServerId,
    Ticket,
    Zxid,
    counter_of,
    epoch_of,
    make,
    show,
)


class Phase(Enum):
    DISCOVERY = "discovery"
    SYNCHRONIZATION = "synchronization"
    BROADCAST = "broadcast"


# A member of an enum is looked up slowly, and these with every word that is heard.
_DISCOVERY: Final = Phase.DISCOVERY
_SYNCHRONIZATION: Final = Phase.SYNCHRONIZATION
_BROADCAST: Final = Phase.BROADCAST


class Leader:
    """One attempt to lead. When `over` is set, the attempt has ended and says why."""

    def __init__(self, log_state: LogState, now: Millis) -> None:
        self.phase = _DISCOVERY
        self.over: str | None = None
        self.designated: ServerId | None = None
        self.learners: dict[ServerId, LearnerState] = {}
        self.epoch: Epoch | None = None
        self._log_state = log_state
        self._out = log_state.out
        self._settings = log_state.settings
        self._sync_ms = log_state.settings.sync_ms
        self._summary = (log_state.epoch, log_state.last)
        self._initial = log_state.history.last
        self._ensemble = log_state.ensemble
        self._promised: Ticket | None = None
        self._promise_durable = False
        self._adopted: Ticket | None = None
        self._adoption_durable = False
        self._promises: set[ServerId] = set()
        self._histories: set[ServerId] = set()
        self._given: set[ServerId] = set()
        """Servers whose transactions of this epoch, if they have any, came from this leader."""
        self._outstanding: deque[tuple[Zxid, int, int]] = deque()
        self._outstanding_count = self._outstanding_bytes = 0
        self._joint: tuple[Ensemble, Zxid] | None = None
        self._unsynchronized = self._heals = False
        self._barriers = Barriers(log_state, self.learners, self._is_quorum)
        self._phase_until = now + self._settings.init_ms
        self._tick_at = now + self._settings.tick_ms // 2
        self._odd_tick = False
        self._choose_epoch(now)

    @property
    def serving(self) -> bool:
        return self.phase is _BROADCAST and self._log_state.applied >= self._initial

    @property
    def deadline(self) -> Millis:
        return self._tick_at if self.phase is _BROADCAST else min(self._tick_at, self._phase_until)

    # -- links -------------------------------------------------------------------------------------

    def link_up(self, source: ServerId, now: Millis) -> None:
        # Without a LinkDown first: an answer to a question of the old link would pass for one of the new link's.
        self.link_down(source, now)
        settings = self._settings
        self.learners[source] = LearnerState(source, now + settings.init_ms + settings.sync_ms)

    def link_down(self, source: ServerId, now: Millis) -> None:
        self.learners.pop(source, None)
        self._barriers.forget(source)

    def hang_up(self, source: ServerId, why: str) -> None:
        self._out.note("learner_dropped", peer=source, why=why)
        self._out.links.append(HangUp(source, dialled=False))
        self.learners.pop(source, None)
        self._barriers.forget(source)

    def leave(self) -> None:
        for sid in list(self.learners):
            self._out.links.append(HangUp(sid, dialled=False))
        self.learners.clear()
        self._barriers.give_up()

    # -- inputs ------------------------------------------------------------------------------------

    def progress(self, source: ServerId, moved: int, now: Millis) -> None:
        """Take the bytes of a synchronization that a link has sent so far. More than before is a sign of life."""
        learner = self.learners.get(source)
        if learner is not None and moved > learner.moved:
            learner.moved = moved
            self._synchronizes(learner, now)

    def found(self, question: FindSnapshot, found: FoundSnapshot | None) -> None:
        """Take the disk's answer to a question of this leader. The learner may have another link by now."""
        learner = self.learners.get(question.peer)
        if learner is not None and learner.question is question:
            history = self._log_state.history
            if found is not None and history.digest_at(question.held.zxid) not in (None, found.digest):
                found = None  # of another history
            learner.question, learner.found = None, found
            if found is None:
                learner.held = None
            self._unsynchronized = True

    def handle(self, source: ServerId, message: object, now: Millis) -> None:
        learner = self.learners.get(source)
        handler = self._HANDLERS.get(type(message))
        if learner is None or handler is None:
            self._out.note("ignored", "debug", source=source, message=type(message).__name__)
            return
        until = now + self._sync_ms
        if until > learner.silent_until:
            learner.silent_until = until
        handler(self, learner, message, now)

    def saved(self, ticket: Ticket, grew: bool, now: Millis) -> None:
        if self._promised is not None and ticket >= self._promised:
            self._promised = None
            self._promise_durable = True
            self._tell_epoch(now)
        if self._adopted is not None and ticket >= self._adopted:
            self._adopted = None
            self._adoption_durable = True
            self._count_new_leader(now)
        if grew:
            self._count()

    def tick(self, now: Millis) -> None:
        if self.phase is not _BROADCAST and now >= self._phase_until:
            self.over = f"no quorum in {self.phase.value}"
            return
        if now < self._tick_at:
            return
        self._tick_at = now + max(1, self._settings.tick_ms // 2)
        self._odd_tick = not self._odd_tick
        self._barriers.send_pings()
        for learner in list(self.learners.values()):
            behind = learner.behind
            if now >= learner.silent_until:
                self.hang_up(learner.sid, self._why_silent(learner, now))
            elif behind is not None and now - behind[1] > self._settings.sync_ms:
                self.hang_up(learner.sid, f"has not acknowledged {show(behind[0])} for too long")
        if self._odd_tick or self.phase is not _BROADCAST:
            return
        following = [sid for sid, each in self.learners.items() if each.forwarding and not each.forgotten]
        if not self._is_quorum(following):
            self.over = "a quorum no longer follows"
        elif self._joint is not None and not self._joint[0].is_quorum([*following, self._log_state.me]):
            # Those who left the membership are needed once more, and are gone. In the next epoch they are not.
            self.over = "a quorum of the former membership no longer follows"

    def _why_silent(self, learner: LearnerState, now: Millis) -> str:
        if learner.synced or not learner.forwarding:
            return "silent for too long"
        settings, took = self._settings, max(1, now - learner.sync_began)
        return (
            f"its synchronization made no progress for {settings.init_ms + settings.sync_ms} ms, the limit of "
            f"(init_limit + sync_limit) * tick_ms; it took {learner.moved} bytes in {took} ms, "
            f"{learner.moved * 1_000 // took} bytes/s"
        )

    def flush(self, now: Millis) -> None:
        """What is better done once at the end of a turn than for each thing heard in it."""
        phase = self.phase
        if phase is not _DISCOVERY:
            # Only here is `applied` what the machine will hold when a snapshot is taken for this Ready.
            for learner in self.learners.values() if self._unsynchronized else ():
                if learner.ack_epoch is not None and not learner.forwarding:
                    self._synchronize(learner, now)
            self._unsynchronized = False
        if self._heals and phase is _BROADCAST and self.over is None:
            self._readmit(now)
        self._barriers.ask_all()

    def _readmit(self, now: Millis) -> None:
        """Void the promises that a healed server has forgotten: by a membership that is proposed now, and decided
        without it. An observer that is to vote takes another link first."""
        waiting = [
            learner.sid
            for learner in self.learners.values()
            if learner.forgotten and learner.synced and not learner.observer
        ]
        if not waiting:
            return
        log_state = self._log_state
        if log_state.pending is None and any(self._may_vote(sid) for sid in waiting):
            self._out.note("readmitting", peers=waiting)
            with suppress(NotLeader):  # the counter may be used up; the next epoch will do it
                self._propose_membership(log_state.ensemble, now)

    # -- discovery ---------------------------------------------------------------------------------

    def _on_follower_info(self, learner: LearnerState, message: FollowerInfo, now: Millis) -> None:
        if learner.info is not None:
            raise RemoteProtocolError("a second FollowerInfo on one link")
        version = max(view.version for view in (*self._log_state.views, self._ensemble))
        if message.ensemble_version > version:
            self.hang_up(learner.sid, f"knows a newer membership, {show(message.ensemble_version)}")
            return
        learner.info, learner.observer = message, message.observer
        self._log_state.newest_promise = max(self._log_state.newest_promise, message.accepted_epoch)
        if self.epoch is None:
            self._choose_epoch(now)
        else:
            if message.accepted_epoch > self.epoch and any(learner.sid in view.by_id for view in self._log_state.views):
                # It may never follow me, and a quorum may need it: a newer epoch gives it back to the ensemble.
                self.over = f"server {learner.sid} has promised epoch {message.accepted_epoch}"
                return
            self._tell_epoch(now)

    def _choose_epoch(self, now: Millis) -> None:
        infos = {sid: learner.info for sid, learner in self.learners.items() if learner.info is not None}
        if not self._is_quorum(list(infos)):
            return
        log_state = self._log_state
        epoch = max(log_state.accepted, log_state.newest_promise) + 1
        if epoch > EPOCH_MAX:
            raise LocalProtocolError("the epochs are used up")
        self.epoch = Epoch(epoch)
        self._ensemble = log_state.ensemble_of(Epoch(epoch))
        log_state.accepted = self.epoch
        self._promised = log_state.save_epochs()
        self._phase_until = now + self._settings.init_ms

    def _tell_epoch(self, now: Millis) -> None:
        """The epoch is announced only when this server itself has durably promised it."""
        if not self._promise_durable:
            return
        assert self.epoch is not None
        self._promises.add(self._log_state.me)
        self._histories.add(self._log_state.me)
        for learner in self.learners.values():
            if learner.info is not None and not learner.told_epoch:
                learner.told_epoch = True
                if learner.asks:
                    self._out.send(learner.sid, RESUMES)
                self._out.send(learner.sid, LeaderInfo(self.epoch))
        self._count_epoch_acks(now)

    def _on_snap_held(self, learner: LearnerState, message: SnapHeld, now: Millis) -> None:
        if not (learner.asks and learner.told_epoch) or learner.held is not None or learner.ack_epoch is not None:
            raise RemoteProtocolError("a SnapHeld that was not asked for")
        learner.held = message

    def _on_ack_epoch(self, learner: LearnerState, message: AckEpoch, now: Millis) -> None:
        if not learner.told_epoch or learner.ack_epoch is not None:
            raise RemoteProtocolError("an AckEpoch that was not asked for")
        newer = (message.current_epoch, message.last) > self._summary
        knows = message.counts or (message.last != UNKNOWN and not message.forgotten)
        if newer and knows and self.phase is not _BROADCAST and self._may_know_more(learner):
            # Not with this history: what is newer may be committed. (Once a quorum adopted mine, it cannot be.)
            self.over = f"server {learner.sid} has a newer history, {message.current_epoch}:{show(message.last)}"
            return
        if newer and message.counts and message.current_epoch > self._summary[0] and self._may_know_more(learner):
            where = {
                "theirs": f"{message.current_epoch}:{show(message.last)}",
                "mine": f"{self._summary[0]}:{show(self._initial)}",
            }
            self._out.note(
                "overrules",
                "warning",
                peer=learner.sid,
                **where,
                why="this epoch began with an older history; were the disks of a majority lost or emptied?",
            )
        learner.ack_epoch = message
        learner.forgotten = message.forgotten
        self._unsynchronized = True
        self._heals = self._heals or message.forgotten
        if message.counts:
            self._promises.add(learner.sid)
            if message.last != UNKNOWN:
                self._histories.add(learner.sid)
        self._count_epoch_acks(now)

    def _count_epoch_acks(self, now: Millis) -> None:
        """A quorum must have promised, so that no other leader can have this epoch; and among those whose history
        is no newer than mine there must be one of every quorum, so that what was ever committed is mine, too.

        These are two questions, because a server whose history is damaged still knows its promises.
        """
        if self.phase is not _DISCOVERY or not self._is_quorum(self._promises, myself=False):
            return
        if not all(view.meets_every_quorum(self._histories) for view in self._log_state.views):
            return
        assert self.epoch is not None
        log_state = self._log_state
        self.phase = _SYNCHRONIZATION
        self._phase_until = now + self._settings.init_ms
        log_state.current = self.epoch
        self._adopted = log_state.save_epochs()  # behind my whole history: the disk keeps the order

    # -- synchronization ---------------------------------------------------------------------------

    def _synchronize(self, learner: LearnerState, now: Millis) -> None:
        """Send what the learner lacks, then NEWLEADER; from here on it hears every proposal. One step: no gap."""
        assert learner.ack_epoch is not None
        assert self.epoch is not None
        log_state, history, sid = self._log_state, self._log_state.history, learner.sid
        if learner.question is not None:
            return
        last = learner.ack_epoch.last
        # An epoch has one leader. If another one gave the learner transactions of mine, promises were lost with disks.
        foreign = last != UNKNOWN and epoch_of(last) == self.epoch and sid not in self._given
        how = plan(history, log_state.applied, last, self._settings, foreign)
        held, rest = learner.held, None
        if how.form is Form.SNAP and held is not None and can_resume(history, held, self._settings):
            if learner.found is None:
                learner.question = FindSnapshot(sid, held)
                self._out.finds.append(learner.question)
                return
            how, rest = SyncPlan(Form.SNAP, held.zxid, how.cut), SendRest(held, learner.found)
        if not foreign:
            self._given.add(sid)
        digest = history.digest_at(how.common) if rest is None else rest.found.digest
        if how.common == last and digest not in (None, learner.ack_epoch.digest):
            self._out.note("diverged", "warning", peer=sid, at=show(how.common))
        # An observer may hold what is decided only: the initial history, and then what is committed.
        decided = max(self._initial, log_state.committed, how.common)
        until = decided if learner.observer else history.last
        if how.cut is not None:
            self._out.send(sid, Trunc(how.cut, history.digest_at(how.cut)))
            same = last >> 32 == how.cut >> 32
            count = str(last - how.cut) if same else f"{counter_of(last)} or more"
            cut = {"from": show(last), "to": show(how.cut), "count": count}
            self._out.note("truncates", "warning", peer=sid, **cut, why="they are not in this leader's history")
        if rest is not None:
            self._out.send(sid, rest)
        elif how.form is Form.SNAP:
            assert digest is not None, "what is applied last is in memory"
            self._out.send(sid, SendSnapshot(how.common, digest))
        elif how.form is Form.DIFF:
            self._out.send(sid, Diff(how.common, digest))
        start = how.common
        if start < history.base:
            stop = min(history.base, until)
            self._out.send(sid, SendLog(start, stop))
            if digest is None and stop == history.base:
                # Here the contents can be compared, which they could not where the log begins.
                self._out.send(sid, Diff(stop, history.digest_at(stop)))
            start = stop
        for batch in history.after(start, until):
            self._out.send(sid, Propose(batch))
        ensemble = log_state.ensemble if self.phase is _BROADCAST else self._ensemble
        self._out.send(sid, NewLeader(self.epoch, ensemble))
        more: dict[str, Any] = {} if rest is None else {"resumes_at": rest.held.size, "of": rest.found.size}
        self._out.note("synchronize", peer=sid, form=how.form.value, common=show(how.common), until=show(until), **more)
        learner.synced_until = until
        learner.forwarding = True
        learner.sync_began = now
        learner.silent_until = now + self._settings.init_ms + self._settings.sync_ms

    def _synchronizes(self, learner: LearnerState, now: Millis) -> None:
        """Extend the time of a synchronization that makes progress, and of the phase if a quorum may come of it."""
        if not learner.forwarding or learner.synced:
            return
        settings = self._settings
        learner.silent_until = now + settings.init_ms + settings.sync_ms
        if self.phase is _SYNCHRONIZATION and self._may_vote(learner.sid):
            linked = [sid for sid, each in self.learners.items() if each.forwarding and not each.forgotten]
            if self._is_quorum(linked):
                self._phase_until = now + settings.init_ms

    def _on_ack_new_leader(self, learner: LearnerState, message: AckNewLeader, now: Millis) -> None:
        if not learner.forwarding or learner.synced or message.epoch != self.epoch:
            raise RemoteProtocolError(f"an AckNewLeader({message.epoch}) out of place")
        learner.synced = True
        self._given.add(learner.sid)
        learner.acked = max(learner.acked, learner.synced_until)
        last = self._log_state.history.last
        learner.behind = (last, now) if last > learner.acked else None
        learner.silent_until = now + self._settings.sync_ms
        if self.phase is _BROADCAST:
            self._out.send(learner.sid, UpToDate(self._log_state.committed))
            self._count()
        else:
            self._count_new_leader(now)

    def _on_veto(self, learner: LearnerState, message: Veto, now: Millis) -> None:
        """The learner keeps what it knows to be committed. That happens only if a majority lost what was on disk."""
        committed = show(message.committed)
        self._out.note(
            "vetoed",
            "warning",
            peer=learner.sid,
            epoch=self.epoch,
            common=show(message.common),
            committed=committed,
            last=show(message.last),
            count=message.count,
            why=f"{message.count} transactions, committed up to {committed}, are lacking here; server {learner.sid} "
            f"keeps them and does not follow until an operator decides; were the disks of a majority lost or emptied?",
        )
        if self.phase is not _BROADCAST and self._may_vote(learner.sid):
            self.over = f"server {learner.sid} vetoes this history: {committed} was committed there"
        else:
            self.hang_up(learner.sid, "it vetoes this history")

    def _count_new_leader(self, now: Millis) -> None:
        """With a quorum for NEWLEADER the initial history is decided, and broadcast begins."""
        if self.phase is not _SYNCHRONIZATION or not self._adoption_durable:
            return
        if not self._is_quorum([sid for sid, learner in self.learners.items() if learner.counts]):
            return
        log_state = self._log_state
        self.phase = _BROADCAST
        self._out.note("established", epoch=self.epoch, initial=show(self._initial))
        log_state.drop_held()
        log_state.activate(self._ensemble)
        log_state.commit(self._initial)
        for learner in self.learners.values():
            if learner.synced:
                self._out.send(learner.sid, UpToDate(log_state.committed))
            elif learner.forwarding and not learner.observer:
                self._out.send(learner.sid, Commit(log_state.committed))
        self._yield_if_left()

    # -- broadcast ---------------------------------------------------------------------------------

    def propose(self, payloads: Sequence[bytes], now: Millis) -> Zxid:
        """All of them or, with an error, none."""
        if self.phase is not _BROADCAST or self.over is not None:
            raise NotLeader("not established as leader")
        settings = self._settings
        if not payloads:
            raise LocalProtocolError("nothing to propose")
        if self._outstanding_count + len(payloads) > settings.outstanding_max and self._outstanding_count:
            raise Overloaded(f"{self._outstanding_count} transactions are outstanding; the limit is outstanding_max")
        if self._outstanding_bytes > settings.outstanding_bytes_max:
            raise Overloaded(f"{self._outstanding_bytes} bytes are outstanding; the limit is outstanding_bytes_max")
        first = self._next_zxid(len(payloads))
        self._propose(pack(first, payloads), now)
        return first

    def reconfigure(self, ensemble: Ensemble, expect: Zxid | None, now: Millis) -> Zxid:
        """Propose a membership. It is in force when quorums of the old and of the new one have it."""
        if self.phase is not _BROADCAST or self.over is not None:
            raise NotLeader("not established as leader")
        log_state = self._log_state
        if log_state.pending is not None:
            raise ReconfigInProgress(f"membership {show(log_state.pending.version)} is not decided yet")
        if expect is not None and expect != log_state.ensemble.version:
            raise WrongVersion(f"the membership is at version {show(log_state.ensemble.version)}, not {show(expect)}")
        if not ensemble.voters:
            raise ConfigError("a membership without voters could never decide anything again")
        ensemble.check_addresses()
        synced = [sid for sid, learner in self.learners.items() if learner.counts and not learner.observer]
        if not ensemble.is_quorum([*synced, log_state.me]):
            raise NewConfigNoQuorum(
                f"of the voters {list(ensemble.voters)} only {sorted(synced)} follow and are synced"
            )
        return self._propose_membership(ensemble, now)

    def _propose_membership(self, ensemble: Ensemble, now: Millis) -> Zxid:
        zxid = self._next_zxid(1)
        text = evolve(ensemble, version=zxid).text()
        self._propose(pack(zxid, [text.encode()], config=True), now)
        return zxid

    def _next_zxid(self, count: int) -> Zxid:
        assert self.epoch is not None
        counter = counter_of(self._log_state.history.last) if self._in_epoch() else 0
        if counter + count > self._settings.counter_max:
            # Carrying into the epoch bits would make a zxid of an epoch that nobody promised.
            self.over = "the counter of this epoch is used up"
            raise NotLeader(self.over)
        return make(self.epoch, counter + 1)

    def _in_epoch(self) -> bool:
        assert self.epoch is not None
        return self._log_state.history.last >> 32 == self.epoch

    def _propose(self, batch: Batch, now: Millis) -> None:
        self._log_state.append(batch)
        self._outstanding.append((batch.last, batch.count, len(batch.body)))
        self._outstanding_count += batch.count
        self._outstanding_bytes += len(batch.body)
        message = Propose(batch)
        for learner in self.learners.values():
            if learner.forwarding and not learner.observer:
                self._out.send(learner.sid, message)
                if learner.synced and learner.behind is None:
                    learner.behind = (batch.last, now)

    def _on_ack(self, learner: LearnerState, message: Ack, now: Millis) -> None:
        last = self._log_state.history.last
        if not learner.synced or message.zxid > last:
            raise RemoteProtocolError(f"acknowledged {show(message.zxid)}; proposed so far is {show(last)}")
        if message.zxid <= learner.acked:
            return
        learner.acked = message.zxid
        behind = learner.behind
        if behind is not None:
            # A backlog that shrinks is a sign of life, too.
            awaited = behind[0] if message.zxid < behind[0] else last
            learner.behind = (awaited, now) if message.zxid < awaited else None
        if message.zxid > self._log_state.committed:  # a quorum has all that is before
            self._count()

    def _count(self) -> None:
        """Commit as far as quorums of every membership concerned have it on disk."""
        log_state = self._log_state
        if self.phase is not _BROADCAST:
            return
        while self.over is None:
            # All but those that do not count; not by a call for each, because every acknowledgement asks.
            acked = {sid: each.acked for sid, each in self.learners.items() if each.synced and not each.forgotten}
            acked[log_state.me] = log_state.durable
            reached = log_state.ensemble.quorum_zxid(acked)
            pending = log_state.pending
            if pending is not None and reached >= pending.version:
                # The change itself, and all that was proposed behind it, needs both.
                both = min(reached, pending.quorum_zxid(acked))
                reached = pending.version if both >= pending.version else Zxid(pending.version - 1)
            if self._joint is not None:
                old, until = self._joint
                in_old = old.quorum_zxid(acked)
                if in_old < until:
                    reached = min(reached, in_old)
                else:
                    self._joint = None
            if reached <= log_state.committed or counter_of(reached) == 0:
                return
            self._commit(reached)
            if pending is None and self._joint is None:
                return  # the same quorum has no more; else there may be another one to ask now

    def _commit(self, zxid: Zxid) -> None:
        log_state = self._log_state
        before = log_state.committed
        old, pending = log_state.ensemble, log_state.pending
        decided = log_state.history.after(before, zxid)
        log_state.commit(zxid)
        while self._outstanding and self._outstanding[0][0] <= zxid:
            _, count, size = self._outstanding.popleft()
            self._outstanding_count -= count
            self._outstanding_bytes -= size
        activated = pending is not None and zxid == pending.version
        if activated:
            if log_state.history.last > zxid:
                # Proposed before the change was in force, to servers that hold it without knowing that it is. What
                # only the new quorum has must never be decided before those who have it know the change to be.
                self._joint = old, log_state.history.last
            for learner in self.learners.values():
                if learner.synced and learner.synced_until < zxid and not learner.observer:
                    learner.forgotten = False
        designated = self._designate(zxid) if activated else log_state.me
        message = CommitAndActivate(zxid, designated) if activated else Commit(zxid)
        for learner in self.learners.values():
            if not learner.forwarding:
                continue
            if not learner.observer:
                self._out.send(learner.sid, message)
                continue
            if before < learner.synced_until:
                # What it brought along itself, from before it was an observer, or had been sent as initial history.
                self._out.send(learner.sid, message if zxid <= learner.synced_until else Commit(learner.synced_until))
            for batch in decided:
                if batch.last <= learner.synced_until:
                    continue
                if batch.first <= learner.synced_until:
                    batch = batch.after(learner.synced_until)
                if batch.config:
                    self._out.send(learner.sid, InformAndActivate(batch, designated))
                else:
                    self._out.send(learner.sid, Inform(batch))
        if activated:
            self._yield_if_left(designated)

    def _designate(self, zxid: Zxid) -> ServerId:
        """Who leads under the membership just activated: me, or of its voters the one that holds most."""
        log_state = self._log_state
        if log_state.me in log_state.ensemble.voters:
            return log_state.me
        acked = [
            (learner.acked, sid)
            for sid, learner in self.learners.items()
            if learner.counts and sid in log_state.ensemble.voters and learner.acked >= zxid
        ]
        return max(acked)[1] if acked else log_state.ensemble.voters[-1]

    def _yield_if_left(self, designated: ServerId | None = None) -> None:
        log_state = self._log_state
        if log_state.me in log_state.ensemble.voters:
            return
        self.designated = designated
        self.over = "no longer a voter"

    # -- barriers and pings ------------------------------------------------------------------------

    def barrier(self, token: int) -> None:
        if not self.serving or self.over is not None:
            self._out.barriers.append(BarrierDone(token, None))
            return
        self._barriers.ask(self._log_state.me, token)

    def _on_barrier_request(self, learner: LearnerState, message: BarrierRequest, now: Millis) -> None:
        if self.phase is not _BROADCAST:
            raise RemoteProtocolError("a barrier before UPTODATE")
        self._barriers.ask(learner.sid, message.number)

    def _on_pong(self, learner: LearnerState, message: Pong, now: Millis) -> None:
        if message.number > self._barriers.ping:
            raise RemoteProtocolError(f"Pong({message.number}), but the last ping was {self._barriers.ping}")
        if message == ALIVE:
            learner.asks = learner.asks or learner.info is None
            self._synchronizes(learner, now)
            return
        learner.pong = max(learner.pong, message.number)
        self._barriers.release()

    # -- quorums -----------------------------------------------------------------------------------

    def _is_quorum(self, sids: Collection[ServerId], myself: bool = True) -> bool:
        """In every membership that has a say. I count with the others unless `myself` must show in `sids`."""
        counted = [*sids, self._log_state.me] if myself else sids
        return all(view.is_quorum(counted) for view in self._log_state.views)

    def _may_know_more(self, learner: LearnerState) -> bool:
        """Whether what this server has and I do not may be decided.

        Behind a change of membership that is not decided as far as I know, that can be only if the change is in
        force there: a server knows that before it acknowledges anything that the new quorum alone decides.
        """
        log_state = self._log_state
        if log_state.ensemble.weight(learner.sid):
            return True
        pending = log_state.pending
        if pending is None or learner.info is None or learner.info.ensemble_version < pending.version:
            return False
        return pending.weight(learner.sid) > 0

    def _may_vote(self, sid: ServerId) -> bool:
        """Whether it can ever matter to a quorum what this server says. One of weight zero is never in need."""
        return any(view.weight(sid) for view in self._log_state.views)

    _HANDLERS: Final[dict[type, Callable[[Any, LearnerState, Any, Millis], None]]] = {
        FollowerInfo: _on_follower_info,
        AckEpoch: _on_ack_epoch,
        AckNewLeader: _on_ack_new_leader,
        Ack: _on_ack,
        Pong: _on_pong,
        SnapHeld: _on_snap_held,
        BarrierRequest: _on_barrier_request,
        Veto: _on_veto,
    }
