"""One simulated server: a node, its disk and its machine, driven as `zab.core.ready` requires of drivers.

Events on the heap replace the threads and sockets of a real driver. A write is performed later, together with others
that were handed over meanwhile. A message goes to the simulated network. A fault may crash the process between any two
steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappush
from random import Random
from typing import Any, Final, TypeAlias

from harness.budgets import USED_UP
from harness.worlds.common import settings_of
from harness.worlds.cores.clock import Clock
from harness.worlds.cores.machine import Machine, Replicated
from harness.worlds.cores.network import End
from harness.worlds.cores.simulator import Simulator
from harness.worlds.cores.writer import Writer
from harness.worlds.disks import SNAPSHOTS_KEPT
from zab.core import messages
from zab.core import ready as effects
from zab.core.batch import Batch
from zab.core.ensemble import Ensemble
from zab.core.errors import NotLeader, StorageError
from zab.core.messages import ON_LINKS, TO_LEADER, LinkEvent, Message, State
from zab.core.node import Node
from zab.core.outbox import EMPTY_READY
from zab.core.ready import Append, Apply, Ready, Settings
from zab.core.zxid import Epoch, Millis, ServerId, Ticket, Zxid, counter_of, epoch_of, show
from zab.storage.log_reader import Purged
from zab.storage.memory_disk import MemoryDisk
from zab.storage.storage import Storage, StorageSettings

Status: TypeAlias = tuple[Zxid, State, Epoch, ServerId | None, bool]
"""The committed zxid, state, epoch and leader of a node, and whether it serves."""
_UPWARDS: Final[dict[type, bool]] = {kind: kind in TO_LEADER for kind in ON_LINKS}
"""The kinds of messages, with True for those of learners. Learners send on the links that they dialled, leaders on
accepted links."""
FIND_US: Final = 1_000
"""The time that a search for a snapshot on the disk takes."""


class Server:
    machine: Replicated
    node: Node
    storage: Storage

    def __init__(self, world: Simulator, sid: ServerId, ensemble: Ensemble, seed: str) -> None:
        self.world = world
        self.id = sid
        self.ensemble = ensemble
        """The membership in its configuration file; a newer one on its disk takes precedence."""
        self.knobs = world.script.knobs
        """The settings of this server, which a fault may change."""
        self.clock = Clock(world)
        self.disk = MemoryDisk()
        self.machine = self.empty_machine()
        self.random = Random(f"{seed}/server/{sid}")
        self._chance = self.random.random
        self.writer = Writer(self)
        self.founding = True
        """True if the disk may be empty because the server has never run. Later an empty disk is a lost disk."""
        self.founded = False
        """True if the server starts with the run, or was started later to join the ensemble."""
        self.life = 0
        self.up = False
        self.paused = False
        self.resumed_at = 0
        self.backlog: list[tuple[Callable[..., None], object, object]] = []
        self.dialled: dict[ServerId, End] = {}
        self.accepted: dict[ServerId, End] = {}
        self.dialling: dict[ServerId, int] = {}
        self.last_received_at: dict[ServerId, int] = {}
        self.submitted: dict[Zxid, bytes] = {}
        self.barriers: set[int] = set()
        """The barriers that were submitted here and are not answered."""
        self.watched = False
        """True while a fault is aimed at a step of this server."""
        self._gathering = False
        """True while its turn is postponed, so that it handles more messages together."""
        self._broadcasts = False
        """True if it has proposed a membership change in this turn."""
        self._began(Zxid(0), 0)

    def _began(self, snapshot: Zxid, count: int) -> None:
        """Reset the state that mirrors the node, at a start from a snapshot with this number of transactions."""
        self._seen: Status = (snapshot, State.LOOKING, Epoch(0), None, False)
        """The status of the node after its last turn."""
        self._leads = self._serves = False
        self._unproposed = 0
        """The number of transactions in the batch that ended the leadership of the node in this turn; 0: none did."""
        self._used_up = Epoch(0)
        """The last epoch of this server whose zxids did not suffice."""
        self._snapshot_at = count
        self._timer = 0

    # -- the process -----------------------------------------------------------------------------------

    def start(self) -> bool:
        """Read the disk, and start the node. Return False if the disk fails."""
        world, judge = self.world, self.world.judge
        settings = StorageSettings(
            segment_bytes=self.knobs.segment_bytes,
            preallocate=False,
            snapshots_kept=SNAPSHOTS_KEPT,
            autocreate=self.founding,
        )
        world.nemesis.starts(self)
        try:
            self.storage, recovered = Storage.open(self.disk, settings)
            machine = self.empty_machine()
            if recovered.snapshot:
                machine.restore(self.storage.read_snapshot(recovered.snapshot))
        except StorageError as error:
            if not world.nemesis.excuses(self):
                world.report_failure(self, "fails to read its disk", error)
            return False
        self.life += 1
        self.up = True
        self.founding = False
        self.machine = machine
        last = recovered.batches[-1].last if recovered.batches else recovered.snapshot
        world.record(self.id, "starts", 0, recovered)
        judge.started(self.id, recovered, last)
        judge.restored(self.id, recovered.snapshot)
        judge.machine(self.id, machine.zxid, machine.digest, recovered.digest)
        self.node = self.make_node(recovered)
        self._began(recovered.snapshot, machine.count)
        world.network.started(self)
        self.drain()
        return True

    def empty_machine(self) -> Replicated:
        return Machine(self.knobs.chunk_bytes + self.id)  # chunks of servers differ in size

    def make_node(self, recovered: effects.Recovered) -> Node:
        return Node(self.id, self.ensemble, recovered, self.settings, self.jitter, self.now_ms)

    @property
    def settings(self) -> Settings:
        world = self.world
        return world.settings if self.knobs is world.script.knobs else settings_of(self.knobs)

    def jitter(self, most: Millis) -> Millis:
        return int(self.random.random() * most)

    def crash(self, loss: str) -> None:
        """Crash the process. Of unfinished writes, only what `loss` allows reaches the disk."""
        world = self.world
        world.record(self.id, "crashes", 0, loss)
        self.up = self.paused = self._gathering = self._broadcasts = False
        self.life += 1
        self.backlog.clear()
        self.submitted.clear()
        self.barriers.clear()
        self.last_received_at.clear()
        world.nemesis.power_fails(self, loss)
        unfinished = self.writer.crash(loss)
        world.network.crashed(self)
        world.judge.crashed(self.id, unfinished)

    def end(self) -> None:
        """End the process in good order: finish all writes, and close the log."""
        if not self.paused:
            try:
                self.writer.finish()
                self.storage.close()
            except StorageError as error:
                self.world.disk_failed(self, error)
                return
        self.crash("keep")

    def defer(self, act: Callable[..., None], one: object, other: object) -> None:
        """Call `act` when the pause is over."""
        self.backlog.append((act, one, other))

    def pause(self) -> None:
        if self.up and not self.paused:
            self.paused = True
            self.world.record(self.id, "pauses", 0, None)

    def resume(self) -> None:
        """Handle everything that arrived during the pause, in order."""
        if not self.paused:
            return
        self.paused = False
        self.resumed_at = self.world.now
        self.world.record(self.id, "resumes", 0, None)
        backlog, self.backlog = self.backlog, []
        life = self.life
        for act, one, other in backlog:
            if self.life != life:
                return
            act(one, other)

    # -- inputs ----------------------------------------------------------------------------------------

    def receive(self, source: ServerId, message: Message | LinkEvent) -> None:
        world = self.world
        if world.trace is not None:
            world.record(self.id, "hears", source, message)
        kind = type(message)
        if kind is messages.Notification:
            world.judge.heard_notification(self.id, source, message)  # type: ignore[arg-type]
        elif kind is messages.LeaderInfo:
            world.judge.heard_leader_info(self.id, message.epoch)  # type: ignore[union-attr]
        elif kind is messages.Commit or kind is messages.CommitAndActivate:
            world.judge.heard_commit(self.id, message.zxid)  # type: ignore[union-attr]
        elif kind is messages.FollowerInfo:
            world.judge.heard_follower_info(self.id, source)
        elif kind is messages.Ack:
            world.judge.heard_ack(self.id, source, message.zxid)  # type: ignore[union-attr]
        try:
            self.node.step(source, message, world.now // 1_000 if self.clock.plain else self.now_ms)
        except Exception as error:
            world.report_failure(self, f"fails to handle {type(message).__name__} from server {source}", error)
        if not self._gathering:
            self.turn_soon()

    def tick(self, life: int, at: int) -> None:
        """Tick the node at its deadline. The node may have moved the deadline since the tick was scheduled."""
        if self.life != life or self._timer != at:
            return
        if self.paused:
            self.defer(self.tick, life, at)
            return
        self._timer = 0
        if self.node.deadline > self.now_ms:
            self._wind()
            return
        try:
            self.node.tick(self.now_ms)
        except Exception as error:
            self.world.report_failure(self, "fails at a tick", error)
        self.world.judge.ticked(self.id)
        self.turn_soon()

    def _wind(self) -> None:
        """Schedule a tick at the deadline, unless an earlier one is scheduled."""
        clock = self.clock
        at = self.node.deadline * 1_000 if clock.plain else clock.when(self.node.deadline)
        if at is None:  # the clock is frozen, so the deadline does not come
            self._timer = 0
        elif not self._timer or at < self._timer:
            world = self.world
            self._timer = at = max(at, world.now + 1)
            world.push(at, self.tick, self.life, at)

    @property
    def now_ms(self) -> Millis:
        clock = self.clock
        return (self.world.now if clock.plain else clock.now_us()) // 1_000

    def turn_clock(self, turn: Callable[[], None]) -> None:
        """Change the rate of the clock, and with it the time at which the deadline comes."""
        turn()
        if self.up:
            self._timer = 0
            self._wind()

    def submit(self, payloads: list[bytes]) -> None:
        """Propose writes. A postponed turn is taken first, because a primary prepares requests on its latest state."""
        judge = self.world.judge
        if self._gathering:
            self.drain()
        try:
            first = self.node.propose(payloads, self.now_ms)
        except NotLeader:
            self.not_proposed(len(payloads))
            raise
        else:
            judge.proposed(self.id, first, payloads)
            judge.broadcasts(self.id, self.node.epoch)
            self.submitted.update({Zxid(first + offset): payload for offset, payload in enumerate(payloads)})
        finally:
            self.turn_soon()  # also after a refusal, because the node may have ended its leadership

    def not_proposed(self, count: int) -> None:
        """Note that the node has refused to propose so many transactions, and whether it resigned for that."""
        node = self.node
        if self._leads and (node.state is not State.LEADING or node.epoch != self._seen[2]):
            self._unproposed = count

    def reconfigure(self, ensemble: Ensemble) -> None:
        try:
            self.node.reconfigure(ensemble, None, self.now_ms)
        finally:
            self.turn_soon()

    def ask(self, token: int) -> None:
        self.barriers.add(token)
        self.node.barrier(token, self.now_ms)
        self.turn_soon()

    # -- the turn --------------------------------------------------------------------------------------

    def turn_soon(self) -> None:
        """Take a turn at once, or postpone it, so that it also handles the messages that arrive until then."""
        if self._gathering:
            return
        world = self.world
        if world.turn_max and (wait := int(self._chance() * world.turn_max)) > 20:
            self._gathering = True
            heappush(world.heap, (world.now + wait, world.serial(), self._gathered, self.life, None))
        else:
            self.drain()

    def _gathered(self, life: int, _: object) -> None:
        if self.life != life:
            return
        if self.paused:
            self.defer(self._gathered, life, None)
            return
        self._gathering = False
        self.drain()

    def drain(self) -> None:
        try:
            ready = self.node.ready()
        except Exception as error:
            self.world.report_failure(self, "fails to return its Ready", error)
            return
        self._hand_over(ready)
        if ready is not EMPTY_READY:
            self._note(ready)
            apply_first = ready.apply and ready.send and ready.wants_state
            if apply_first:
                self._apply(ready)
            self._send_all(ready)
            self.find_snapshots(ready)
            if ready.apply and not apply_first:
                self._apply(ready)
        self._conclude(ready)
        self._wind()

    def _hand_over(self, ready: Ready) -> None:
        """Hand the writes to the disk, and report the status of the node to the judge."""
        node = self.node
        if ready.save:
            self._save(ready.save)
        reached = self._reached(node) if self.watched else None
        seen = node.status()
        if seen != self._seen:
            self._report(seen)
        if reached is not None:
            self.world.act(self, "quorum", reached)

    def _note(self, ready: Ready) -> None:
        for note in ready.notes:
            self.world.noted(self, note)

    def _send_all(self, ready: Ready) -> None:
        world = self.world
        for envelope in ready.send:
            self._send(envelope.to, envelope.message)
        for link in ready.links:
            world.record(self.id, "dials" if isinstance(link, effects.Dial) else "hangs up on", 0, link)
            if isinstance(link, effects.Dial):
                world.network.dial(self, link.to)
            else:
                world.network.hang_up(self, link.peer, link.dialled)

    def find_snapshots(self, ready: Ready) -> None:
        for question in ready.finds:
            self.world.push(self.world.now + FIND_US, self._find, self.life, question)

    def _conclude(self, ready: Ready) -> None:
        """Report to the judge the facts that hold only after all effects of this Ready are carried out."""
        judge = self.world.judge
        if self._broadcasts:
            # A membership change does not depend on the applied state, so the turn applies transactions first.
            self._broadcasts = False
            judge.broadcasts(self.id, self.node.epoch)
        if self._serves is not self._seen[4]:
            self._serves = not self._serves
            if self._serves:
                judge.serves(self.id)
        for barrier in ready.barriers:
            self._answer(barrier)

    def _reached(self, node: Node) -> str | None:
        """Return the quorum that a leader has counted in this turn, before it sends anything."""
        committed, state, epoch, *_ = self._seen
        if node.state is not State.LEADING or node.leader != self.id:
            return None
        if state is State.LEADING and node.epoch > epoch:
            return "promised"
        return "acked" if node.serving and node.committed > committed else None

    def _report(self, seen: Status) -> None:
        """Report the commits of the former role first, and then the role: a leader may commit in its last turn."""
        judge, me = self.world.judge, self.id
        before, self._seen = self._seen, seen
        committed, state, epoch, leader, serving = seen
        leads = leader == me
        if self._leads and (not leads or epoch != before[2]):
            self._count_used_up(before[2])
        if committed != before[0]:
            judge.committed(me, committed, leads or self._leads)
        self._leads = leads
        if seen[1:] != before[1:]:
            judge.role(me, state, epoch, leader, serving)

    def _count_used_up(self, epoch: Epoch) -> None:
        """Count an epoch that ends because its leader had more to propose than the epoch has zxids left.

        Without a refused batch the leader may have had a membership change to propose, which is one transaction.
        """
        last = self.node.last
        wanted = max(1, self._unproposed)
        self._unproposed = 0
        if epoch_of(last) == epoch > self._used_up and counter_of(last) + wanted > self.settings.counter_max:
            self._used_up = epoch
            self.world.counted(USED_UP)

    # -- the disk --------------------------------------------------------------------------------------

    def _save(self, writes: Sequence[effects.Write]) -> None:
        judge, me = self.world.judge, self.id
        for write in writes:
            if self.world.trace is not None:
                self.world.record(me, "saves", 0, write)
            if isinstance(write, Append):
                batch = write.batch
                judge.appended(me, batch)
                led = self.node.leader == me or self._leads  # the leadership may have ended in this turn
                if batch.config and led and epoch_of(batch.first) == self.node.epoch:
                    self.report_change(batch)
            elif isinstance(write, effects.Truncate):
                judge.truncated(me, write.zxid)
            elif isinstance(write, effects.InstallSnapshot):
                judge.installed(me, write.zxid)
            elif isinstance(write, effects.SaveEpochs):
                judge.goes_by(me, write.ensemble.version)
                if not write.forgotten:
                    judge.remembers(me, write.ensemble.version)
        self.writer.hand_over(writes)

    def report_change(self, batch: Batch) -> None:
        """Report a membership change when it is handed to the disk. The node itself proposes these."""
        self.world.judge.proposed(self.id, batch.first, batch.payloads())
        self._broadcasts = True

    def saved(self, ticket: Ticket) -> None:
        world = self.world
        if world.trace is not None:
            world.record(self.id, "saved", 0, ticket)
        before = self.node.durable
        self.node.holds(self.storage.held)
        try:
            self.node.saved(ticket, self.now_ms)
        except Exception as error:
            world.report_failure(self, f"fails to handle the end of the writes up to ticket {ticket}", error)
        if self.node.durable != before:
            world.judge.counts_durable(self.id, self.node.durable)
        self.turn_soon()

    def snapshot(self) -> None:
        if self.up and not self.paused:
            if self._gathering:
                self.drain()  # otherwise the digest of the node would not match the state of the machine
            if self.writer.snapshot():
                self._snapshot_at = self.machine.count

    # -- messages --------------------------------------------------------------------------------------

    def _send(self, to: ServerId, message: Any) -> None:
        world = self.world
        kind = type(message)
        upwards = _UPWARDS.get(kind)
        if upwards is None:
            self._send_otherwise(to, message)
            return
        if self.watched:
            world.act(self, "before sending", kind.__name__)
        end = (self.dialled if upwards else self.accepted).get(to)
        sent = world.network.send(end, message)
        if world.trace is not None:
            world.record(self.id, "says to" if sent else "would say to", to, message)
        if sent:
            fact = world.judge.said.get(kind)
            if fact is not None:
                fact(self.id, to, message)
        if self.watched:
            world.act(self, "after sending", kind.__name__)

    def _send_otherwise(self, to: ServerId, message: Any) -> None:
        """Send a message of the election channel, or a series of messages to a learner."""
        if isinstance(message, effects.SendSnapshot):
            self._send_snapshot(to, message)
        elif isinstance(message, effects.SendRest):
            self._send_rest(to, message)
        elif isinstance(message, effects.SendLog):
            self._send_log(to, message)
        else:
            self.world.network.tell(self.id, to, message)
            if self.world.trace is not None:
                self.world.record(self.id, "tells", to, message)

    def _send_snapshot(self, to: ServerId, message: effects.SendSnapshot) -> None:
        machine = self.machine
        if machine.zxid != message.zxid:
            what = f"the machine is at {show(machine.zxid)}, but the snapshot is of {show(message.zxid)}"
            self.world.report_failure(self, "fails to send a snapshot", AssertionError(what))
        self._send(to, messages.SnapBegin(message.zxid, message.digest))
        for chunk in machine.snapshot():
            self._send(to, messages.SnapChunk(chunk))
        self._send(to, messages.SnapEnd())
        self.world.counted("snap")
        self.writer.snapshot(spare=True)

    def _send_rest(self, to: ServerId, message: effects.SendRest) -> None:
        held, found = message.held, message.found
        self._send(to, messages.SnapResume(held.zxid, found.digest, held.size, found.size))
        try:
            for chunk in self.storage.read_rest(held):
                self._send(to, messages.SnapChunk(chunk))
        except StorageError:
            self._cut_off(to)
            return
        self._send(to, messages.SnapEnd())
        self.world.counted("rest")

    def _find(self, life: int, question: effects.FindSnapshot) -> None:
        """Look for the snapshot whose beginning a learner has. If it is being written, look again later."""
        if self.life != life:
            return
        if self.paused:
            self.defer(self._find, life, question)
            return
        if self.writer.storing == question.held.zxid:
            self.world.push(self.world.now + FIND_US, self._find, life, question)
            return
        try:
            found = self.storage.find_snapshot(question.held)
        except StorageError:
            found = None
        self.node.found(question, found, self.now_ms)
        self.turn_soon()

    def _cut_off(self, to: ServerId) -> None:
        self.world.network.hang_up(self, to, dialled=False)
        self.node.step(to, messages.LinkDown(dialled=False), self.now_ms)

    def _send_log(self, to: ServerId, message: effects.SendLog) -> None:
        self.world.counted("log")
        try:
            for batch in self.storage.read_log(message.after, message.until):
                self._send(to, messages.Propose(batch))
        except Purged:
            self._cut_off(to)
        except StorageError as error:
            self.world.disk_failed(self, error)

    # -- the machine -----------------------------------------------------------------------------------

    def _apply(self, ready: Ready) -> None:
        for effect in ready.apply:
            if isinstance(effect, Apply):
                self._apply_batch(effect.batch)
            elif isinstance(effect, effects.Restore):
                self._restore(effect.zxid)
            elif isinstance(effect, effects.Activate):
                self._activate(effect.ensemble)
        self._snapshot_if_due()

    def _apply_batch(self, batch: Batch) -> None:
        if self.world.trace is not None:
            self.world.record(self.id, "applies", 0, batch)
        self.world.judge.applied(self.id, batch)
        self._feed(batch)

    def _activate(self, ensemble: Ensemble) -> None:
        self.world.record(self.id, "activates", 0, ensemble)
        self.world.judge.activated(self.id, ensemble)
        self.world.counted("activated")

    def _snapshot_if_due(self) -> None:
        if self.machine.count - self._snapshot_at >= self.knobs.snapshot_every:
            self.snapshot()

    def _feed(self, batch: Batch) -> None:
        machine = self.machine
        assert isinstance(machine, Machine)
        self.storage.know_committed(batch.last)
        machine.apply(batch)
        if self.submitted:
            self._acknowledge(batch)

    def _restore(self, zxid: Zxid) -> None:
        world = self.world
        world.record(self.id, "restores", 0, None)
        self.storage.know_committed(zxid)
        try:
            self._become(zxid)
        except StorageError as error:
            world.disk_failed(self, error)
            return
        machine = self.machine
        self._snapshot_at = machine.count
        self.submitted.clear()
        world.judge.restored(self.id, zxid)
        world.judge.machine(self.id, machine.zxid, machine.digest, self.node.digest())

    def _become(self, zxid: Zxid) -> None:
        machine = self.empty_machine()
        machine.restore(self.storage.read_snapshot(zxid))
        self.machine = machine

    def _acknowledge(self, batch: Batch) -> None:
        """Acknowledge the writes that were submitted here and are applied now."""
        for zxid, payload in enumerate(batch.payloads(), batch.first):
            if self.submitted.pop(Zxid(zxid), None) == payload:
                self.world.acknowledged(self, Zxid(zxid))

    def _answer(self, barrier: effects.BarrierDone) -> None:
        self.world.record(self.id, "answers", 0, barrier)
        self.barriers.discard(barrier.token)
        if barrier.zxid is not None:
            self.world.judge.barrier_answered(self.id, barrier.token, barrier.zxid)
            self.world.counted("barrier")
