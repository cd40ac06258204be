"""The writes that must be durable before a message, an adoption, a commit or an acknowledgement."""

from __future__ import annotations

from harness.checkers.ghost import Ghost, Known
from harness.checkers.judge import Checker
from harness.quorums import in_words, is_quorum
from zab.core.batch import Batch
from zab.core.ensemble import Ensemble
from zab.core.messages import Ack, AckEpoch, AckNewLeader, LeaderInfo, NewLeader, State, UpToDate
from zab.core.ready import Recovered
from zab.core.zxid import NOTHING, Epoch, ServerId, Zxid, counter_of, epoch_of, show


class DurableBeforeAck(Checker):
    """A server reports no more than its disk holds."""

    invariant = "durable before acknowledged"

    def said_ack(self, who: Known, to: ServerId, message: Ack) -> None:
        if not self.ghost.holds(who.durable, message.zxid):
            self.fail(f"server {who.id} acknowledges {show(message.zxid)}, its disk ends at {show(who.durable)}")

    def counts_durable(self, who: Known, zxid: Zxid) -> None:
        """The disk's report may belong to a history that a snapshot has replaced meanwhile."""
        if not self.ghost.holds(who.tip, zxid):
            self.fail(
                f"server {who.id} takes {show(zxid)} to be durable, which its history up to {show(who.tip)} is not"
            )

    def said_ack_new_leader(self, who: Known, to: ServerId, message: AckNewLeader) -> None:
        if who.current < message.epoch:
            self.fail(f"server {who.id} acknowledges epoch {message.epoch}, its disk says {who.current}")
        initial = self.ghost.initial.get(message.epoch)
        if initial is not None and not self.ghost.holds(who.durable, initial):
            self.fail(
                f"server {who.id} acknowledges epoch {message.epoch}, which begins with {show(initial)};"
                f" its disk ends at {show(who.durable)}"
            )

    def said_ack_epoch(self, who: Known, to: ServerId, message: AckEpoch) -> None:
        if who.accepted < who.promised:
            self.fail(f"server {who.id} promises epoch {who.promised}, its disk says {who.accepted}")

    def said_leader_info(self, who: Known, to: ServerId, message: LeaderInfo) -> None:
        if who.accepted < message.epoch:
            self.fail(f"server {who.id} announces epoch {message.epoch}, its disk says {who.accepted}")


class HistoryBeforeEpoch(Checker):
    """A disk with a current epoch holds the initial history of that epoch.

    Otherwise the server would win an election by an epoch whose history it lacks, and cut the others. There is one
    exception: after a cut by the leader of a later epoch, and before that epoch is saved. That leader was elected
    without the initial history, so no quorum has adopted the epoch, and none ever will.
    """

    invariant = "history before epoch"

    def __init__(self, ghost: Ghost) -> None:
        super().__init__(ghost)
        self._cut: dict[ServerId, Epoch] = {}
        """The epoch of the leader that last made a server give up the initial history of its current epoch."""

    def truncated(self, who: Known, zxid: Zxid) -> None:
        initial = self.ghost.initial.get(who.current)
        if initial is not None and not self.ghost.holds(zxid, initial):
            self._cut[who.id] = who.promised

    installed = truncated

    def durable_epochs(self, who: Known, accepted: Epoch, current: Epoch) -> None:
        initial = self.ghost.initial.get(current)
        if current > who.current and initial is not None and not self.ghost.holds(who.durable, initial):
            self.fail(
                f"server {who.id} adopts epoch {current}, which begins with {show(initial)},"
                f" with a disk that ends at {show(who.durable)}"
            )

    def started(self, who: Known, recovered: Recovered) -> None:
        last = recovered.batches[-1].last if recovered.batches else recovered.snapshot
        initial = self.ghost.initial.get(recovered.current)
        cut = recovered.current < self._cut.get(who.id, Epoch(0))
        if recovered.voting and not cut and initial is not None and not self.ghost.holds(last, initial):
            self.fail(
                f"server {who.id} restarts in epoch {recovered.current}, which begins with {show(initial)},"
                f" with a history that ends at {show(last)}"
            )


class MembersBeforeSnapshot(Checker):
    """A server that installs a snapshot has the membership of that zxid on its disk: the snapshot hides the change.

    With the former membership it could help to elect a leader that the present members do not know.
    """

    invariant = "the membership is durable before a snapshot"

    def __init__(self, ghost: Ghost) -> None:
        super().__init__(ghost)
        self._versions: dict[ServerId, Zxid] = {}

    def goes_by(self, who: Known, members: Zxid) -> None:
        self._versions[who.id] = members

    def started(self, who: Known, recovered: Recovered) -> None:
        self._versions[who.id] = NOTHING if recovered.ensemble is None else recovered.ensemble.version

    def installed(self, who: Known, zxid: Zxid) -> None:
        there, known = self.ghost.governing.get(zxid), self._versions.get(who.id, NOTHING)
        if there is not None and known < there.version:
            self.fail(
                f"server {who.id} takes a snapshot at {show(zxid)}, where the members of {show(there.version)} are in"
                f" force, and knows only those of {show(known)}"
            )


class DecidedIsInForce(Checker):
    """A learner that has received the commit of a membership change activates it before its next acknowledgement, also
    during synchronization. The new members alone may commit what it acknowledges; a server that has the transaction and
    does not know these members could help to elect a leader that lacks it."""

    invariant = "a membership that a server knows to be committed is active"

    def __init__(self, ghost: Ghost) -> None:
        super().__init__(ghost)
        self._versions: dict[ServerId, Zxid] = {}
        self._heard: dict[ServerId, Zxid] = {}
        """The newest zxid that each server knows to be committed from its present leader."""

    def goes_by(self, who: Known, members: Zxid) -> None:
        self._versions[who.id] = members

    def started(self, who: Known, recovered: Recovered) -> None:
        self._versions[who.id] = NOTHING if recovered.ensemble is None else recovered.ensemble.version
        self._heard.pop(who.id, None)

    def role(self, who: Known, state: State, epoch: Epoch, leader: ServerId | None, serving: bool) -> None:
        self._heard.pop(who.id, None)

    def heard_commit(self, who: Known, zxid: Zxid) -> None:
        if who.state == State.FOLLOWING:
            self._heard[who.id] = max(zxid, self._heard.get(who.id, NOTHING))

    def said_ack(self, who: Known, to: ServerId, message: Ack) -> None:
        heard, known = self._heard.get(who.id, NOTHING), self._versions.get(who.id, NOTHING)
        there = self.ghost.governing.get(heard)
        if there is not None and known < there.version:
            self.fail(
                f"server {who.id} acknowledges {show(message.zxid)} and goes by the members of {show(known)}; it was"
                f" told that {show(heard)} is decided, and there those of {show(there.version)} are in force"
            )


class ActivatedIsDecided(Checker):
    """A server activates only a membership that was committed, unchanged, and that its own history contains.

    Two memberships are active without being in the history: the first one, which holds until a change is committed and
    has its version from an epoch, and one that a server learns during an election, which is newer than its history.
    """

    invariant = "an active membership was committed"

    def activated(self, who: Known, ensemble: Ensemble) -> None:
        ghost, version = self.ghost, ensemble.version
        if not counter_of(version):
            before = ghost.governing[ghost.initial.get(epoch_of(version), NOTHING)]
            if before is not ghost.initial_ensemble or not ensemble.same_members(before):
                self.fail(
                    f"server {who.id} puts the members of {show(version)} in force, {in_words(ensemble)}; epoch"
                    f" {epoch_of(version)} began with those of {show(before.version)}, {in_words(before)}"
                )
            return
        if version not in ghost.place or ghost.governing[version] != ensemble:
            self.fail(
                f"server {who.id} puts the members of {show(version)} in force, {in_words(ensemble)}, which was never"
                f" decided; committed is {show(ghost.committed)}"
            )
        expected = version <= who.tip or who.serving
        if expected and not who.impaired and not ghost.holds(who.tip, version):
            self.fail(
                f"server {who.id} puts the members of {show(version)} in force, which its history up to"
                f" {show(who.tip)} does not contain"
            )


class ReadmittedBySomethingNewer(Checker):
    """A server that lost its promises is not counted before a membership is committed without its vote: one that was
    proposed after its synchronization. A candidate that holds its lost promise cannot lead without such a membership;
    an earlier change under way may have counted the promise. Neither the server itself nor its leader counts it."""

    invariant = "a server that lost its promises is readmitted by a newer membership"
    by_place = frozenset({"appended"})

    def __init__(self, ghost: Ghost) -> None:
        super().__init__(ghost)
        self._forgot: dict[ServerId, None] = {}
        self._told: dict[tuple[ServerId, ServerId], Zxid] = {}
        """By leader and server: the newest membership, committed or not, when the server had been synchronized."""
        self._just_now: dict[ServerId, Zxid] = {}
        """A change that a leader has proposed in its present step."""

    def started(self, who: Known, recovered: Recovered) -> None:
        self._forgot.pop(who.id, None)
        if recovered.forgotten:
            self._forgot[who.id] = None

    def appended(self, who: Known, batch: Batch) -> None:
        if batch.config:
            self._just_now[who.id] = batch.last

    def broadcasts(self, who: Known, epoch: Epoch) -> None:
        self._just_now.pop(who.id, None)

    def said_new_leader(self, who: Known, to: ServerId, message: NewLeader) -> None:
        self._told[who.id, to] = max(message.ensemble.version, self._newest(who))

    def _newest(self, who: Known) -> Zxid:
        ghost = self.ghost
        there = ghost.governing[who.tip]
        if self._just_now.get(who.id) == there.version:  # it may have been proposed before or after the message
            there = ghost.governing[ghost.parent[there.version]]
        return there.version

    def remembers(self, who: Known, members: Zxid) -> None:
        if who.id not in self._forgot:
            return
        del self._forgot[who.id]
        if who.leader is None:
            self.fail(f"server {who.id} has lost its promises, and counts itself without a leader")
            return
        told = self._told.get((who.leader, who.id), NOTHING)
        if members <= told:
            self.fail(
                f"server {who.id} has lost its promises, and counts itself by the members of {show(members)};"
                f" leader {who.leader} knew of those of {show(told)} when it brought it up to date"
            )

    def committed(self, who: Known, zxid: Zxid, path: list[Zxid] | None) -> None:
        if not path or not self._forgot:
            return
        ghost = self.ghost
        for change in path:
            if ghost.governing[change] is not ghost.governing[ghost.parent[change]]:
                self._check(who, change, ghost.parent[change])
        self._check(who, zxid, zxid)

    def _check(self, who: Known, zxid: Zxid, under: Zxid) -> None:
        ensemble = self.ghost.governing[under]
        have = [sid for sid in self.ghost.had(zxid) if self._counts(who, sid, zxid, ensemble.version)]
        if not is_quorum(ensemble, have):
            self.fail(
                f"server {who.id} commits {show(zxid)}, which but for {[*self._forgot]}, who forgot what they promised,"
                f" only {have} have: no quorum of {in_words(ensemble)}"
            )

    def _counts(self, who: Known, sid: ServerId, zxid: Zxid, members: Zxid) -> bool:
        """An acknowledgement from before the loss still counts."""
        if sid not in self._forgot or members > self._told.get((who.id, sid), zxid):
            return True
        return any(self.ghost.holds(tip, zxid) for tip in self.ghost.servers[sid].kept)


class EpochsAscend(Checker):
    """On stable storage, across restarts: accepted >= current, neither ever falls, and no log is of a later epoch."""

    invariant = "epochs ascend"

    def durable_epochs(self, who: Known, accepted: Epoch, current: Epoch) -> None:
        if accepted < who.accepted or current < who.current:
            self.fail(f"server {who.id} goes back from epochs {who.accepted}, {who.current} to {accepted}, {current}")
        if accepted < max(current, epoch_of(who.durable)):
            self.fail(
                f"server {who.id} adopted epoch {current} and logged {show(who.durable)}, but promised only {accepted}"
            )

    def durable_append(self, who: Known, batch: Batch) -> None:
        if epoch_of(batch.last) > who.accepted:
            self.fail(f"server {who.id} logs {show(batch.last)}, but promised only epoch {who.accepted}")

    def started(self, who: Known, recovered: Recovered) -> None:
        forgets = recovered.accepted < who.accepted or recovered.current < who.current
        if forgets and recovered.voting and not who.went_back:
            self.fail(
                f"server {who.id} restarts with epochs {recovered.accepted}, {recovered.current}"
                f" after {who.accepted}, {who.current}, and votes"
            )


class DurableOnQuorum(Checker):
    """A committed or acknowledged transaction is on the disks of a quorum of every membership concerned."""

    invariant = "durable on a quorum"

    def __init__(self, ghost: Ghost) -> None:
        super().__init__(ghost)
        self._both: tuple[Epoch, Zxid, Zxid] | None = None
        """The epoch in which a membership change was committed, the change, and the end of the transactions behind it
        that other servers had logged by then."""

    def committed(self, who: Known, zxid: Zxid, path: list[Zxid] | None) -> None:
        if not path:
            return
        ghost = self.ghost
        self._check(who, zxid, zxid, "commits")
        for change in path:
            if ghost.governing[change] is not ghost.governing[ghost.parent[change]]:
                # That the new members have it, too, follows from the check of the next change, or of the last zxid.
                self._check(who, change, ghost.parent[change], "commits")
                if epoch_of(change) == who.epoch:
                    self._both = who.epoch, change, max(zxid, self._logged_by_others(who))
        if self._both is not None:
            epoch, change, until = self._both
            if who.epoch == epoch:
                # Sent to servers that did not know yet that the change is in force: the former quorum is needed, too.
                self._check(who, min(zxid, until), ghost.parent[change], "commits")
            if who.epoch != epoch or zxid >= until:
                self._both = None

    def _logged_by_others(self, who: Known) -> Zxid:
        """The newest of this leader's transactions that another server has on its disk: it was proposed before now."""
        return max(
            (each.durable for each in self.ghost.servers if each is not who and epoch_of(each.durable) == who.epoch),
            default=NOTHING,
        )

    def acknowledged(self, who: Known, zxid: Zxid) -> None:
        self._check(who, zxid, zxid, "acknowledges to a client")

    def _check(self, who: Known, zxid: Zxid, under: Zxid, does: str) -> None:
        ghost = self.ghost
        have = ghost.had(zxid)
        ensemble = ghost.governing[under]
        if not is_quorum(ensemble, have):
            self.fail(
                f"server {who.id} {does} {show(zxid)}, which is on the disks of {have}: no quorum of"
                f" {in_words(ensemble)}"
            )


class AdoptedByQuorum(Checker):
    """A learner is told that it is up to date only when a quorum has durably adopted the epoch."""

    invariant = "UPTODATE is sent only after a quorum acknowledged"

    def __init__(self, ghost: Ghost) -> None:
        super().__init__(ghost)
        self._adopted: dict[Epoch, list[ServerId]] = {}

    def durable_epochs(self, who: Known, accepted: Epoch, current: Epoch) -> None:
        self._adopts(who, current)

    def started(self, who: Known, recovered: Recovered) -> None:
        """A crash during a write may leave an adoption on the disk that was never acknowledged."""
        if recovered.voting:
            self._adopts(who, recovered.current)

    def _adopts(self, who: Known, epoch: Epoch) -> None:
        adopted = self._adopted.setdefault(epoch, [])
        if who.id not in adopted:
            adopted.append(who.id)

    def said_up_to_date(self, who: Known, to: ServerId, message: UpToDate) -> None:
        initial = self.ghost.initial.get(who.epoch)
        adopted = self._adopted.get(who.epoch, [])
        if initial is None or not is_quorum(self.ghost.governing[initial], adopted):
            self.fail(f"server {who.id} calls {to} up to date in epoch {who.epoch}, which only {adopted} adopted")
