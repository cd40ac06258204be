"""The writes that must be durable before a message, an adoption, a commit or an acknowledgement."""

from __future__ import annotations

from harness.checkers.judge import Checker
from harness.checkers.oracle_state import OracleState, ServerState
from harness.quorums import in_words, is_quorum
from zab.core.batch import Batch
from zab.core.ensemble import Ensemble
from zab.core.messages import Ack, AckEpoch, AckNewLeader, LeaderInfo, NewLeader, State, UpToDate
from zab.core.ready import Recovered
from zab.core.zxid import NOTHING, Epoch, ServerId, Zxid, counter_of, epoch_of, show


class DurableBeforeAck(Checker):
    """A server acknowledges only what its disk has."""

    invariant = "durable before acknowledged"

    def said_ack(self, server: ServerState, to: ServerId, message: Ack) -> None:
        if not self.ghost.holds(server.durable, message.zxid):
            self.fail(
                f"server {server.id} acknowledges {show(message.zxid)}, but its disk ends at {show(server.durable)}"
            )

    def counts_durable(self, server: ServerState, zxid: Zxid) -> None:
        """The disk's report may belong to a history that a snapshot has replaced meanwhile."""
        if not self.ghost.holds(server.tip, zxid):
            self.fail(
                f"server {server.id} counts {show(zxid)} as durable, but its history ends at {show(server.tip)}"
                " without it"
            )

    def said_ack_new_leader(self, server: ServerState, to: ServerId, message: AckNewLeader) -> None:
        if server.current < message.epoch:
            self.fail(f"server {server.id} acknowledges epoch {message.epoch}, but its disk has epoch {server.current}")
        initial = self.ghost.initial.get(message.epoch)
        if initial is not None and not self.ghost.holds(server.durable, initial):
            self.fail(
                f"server {server.id} acknowledges epoch {message.epoch}, which begins with {show(initial)},"
                f" but its disk ends at {show(server.durable)}"
            )

    def said_ack_epoch(self, server: ServerState, to: ServerId, message: AckEpoch) -> None:
        if server.accepted < server.promised:
            self.fail(f"server {server.id} promises epoch {server.promised}, but its disk has epoch {server.accepted}")

    def said_leader_info(self, server: ServerState, to: ServerId, message: LeaderInfo) -> None:
        if server.accepted < message.epoch:
            self.fail(f"server {server.id} announces epoch {message.epoch}, but its disk has epoch {server.accepted}")


class HistoryBeforeEpoch(Checker):
    """A disk with a current epoch holds the initial history of that epoch.

    Otherwise the server would win an election by an epoch whose history it lacks, and cut the others. There is one
    exception: after a cut by the leader of a later epoch, and before that epoch is saved. That leader was elected
    without the initial history, so no quorum has adopted the epoch, and none ever will.
    """

    invariant = "history before epoch"

    def __init__(self, ghost: OracleState) -> None:
        super().__init__(ghost)
        self._cut: dict[ServerId, Epoch] = {}
        """The epoch of the leader that last made a server give up the initial history of its current epoch."""

    def truncated(self, server: ServerState, zxid: Zxid) -> None:
        initial = self.ghost.initial.get(server.current)
        if initial is not None and not self.ghost.holds(zxid, initial):
            self._cut[server.id] = server.promised

    installed = truncated

    def durable_epochs(self, server: ServerState, accepted: Epoch, current: Epoch) -> None:
        initial = self.ghost.initial.get(current)
        if current > server.current and initial is not None and not self.ghost.holds(server.durable, initial):
            self.fail(
                f"server {server.id} adopts epoch {current}, which begins with {show(initial)},"
                f" with a disk that ends at {show(server.durable)}"
            )

    def started(self, server: ServerState, recovered: Recovered) -> None:
        last = recovered.batches[-1].last if recovered.batches else recovered.snapshot
        initial = self.ghost.initial.get(recovered.current)
        cut = recovered.current < self._cut.get(server.id, Epoch(0))
        if recovered.voting and not cut and initial is not None and not self.ghost.holds(last, initial):
            self.fail(
                f"server {server.id} restarts in epoch {recovered.current}, which begins with {show(initial)},"
                f" with a history that ends at {show(last)}"
            )


class MembersBeforeSnapshot(Checker):
    """A server that installs a snapshot has the membership of that zxid on its disk: the snapshot hides the change.

    With the former membership it could help to elect a leader that the present members do not know.
    """

    invariant = "the membership is durable before a snapshot"

    def installed(self, server: ServerState, zxid: Zxid) -> None:
        there, known = self.ghost.governing.get(zxid), server.members
        if there is not None and known < there.version:
            self.fail(
                f"server {server.id} installs a snapshot at {show(zxid)}, where membership {show(there.version)} is in"
                f" force, but its disk has membership {show(known)}"
            )


class DecidedIsInForce(Checker):
    """A learner that has received the commit of a membership change activates it before its next acknowledgement, also
    during synchronization. The new members alone may commit what it acknowledges; a server that has the transaction and
    does not know these members could help to elect a leader that lacks it."""

    invariant = "a membership that a server knows to be committed is active"

    def __init__(self, ghost: OracleState) -> None:
        super().__init__(ghost)
        self._heard: dict[ServerId, Zxid] = {}
        """The newest zxid that each server knows to be committed from its present leader."""

    def started(self, server: ServerState, recovered: Recovered) -> None:
        self._heard.pop(server.id, None)

    def role(self, server: ServerState, state: State, epoch: Epoch, leader: ServerId | None, serving: bool) -> None:
        self._heard.pop(server.id, None)

    def heard_commit(self, server: ServerState, zxid: Zxid) -> None:
        if server.state == State.FOLLOWING:
            self._heard[server.id] = max(zxid, self._heard.get(server.id, NOTHING))

    def said_ack(self, server: ServerState, to: ServerId, message: Ack) -> None:
        heard, known = self._heard.get(server.id, NOTHING), server.members
        there = self.ghost.governing.get(heard)
        if there is not None and known < there.version:
            self.fail(
                f"server {server.id} acknowledges {show(message.zxid)} with membership {show(known)}, but it received"
                f" the commit of {show(heard)}, where membership {show(there.version)} is in force"
            )


class ActivatedIsDecided(Checker):
    """A server activates only a membership that was committed, unchanged, and that its own history contains.

    Two memberships are active without being in the history: the first one, which holds until a change is committed and
    has its version from an epoch, and one that a server learns during an election, which is newer than its history.
    """

    invariant = "an active membership was committed"

    def activated(self, server: ServerState, ensemble: Ensemble) -> None:
        ghost, version = self.ghost, ensemble.version
        if not counter_of(version):
            before = ghost.governing[ghost.initial.get(epoch_of(version), NOTHING)]
            if before is not ghost.initial_ensemble or not ensemble.same_members(before):
                self.fail(
                    f"server {server.id} activates membership {show(version)}, {in_words(ensemble)}, but epoch"
                    f" {epoch_of(version)} began with membership {show(before.version)}, {in_words(before)}"
                )
            return
        if version not in ghost.place or ghost.governing[version] != ensemble:
            self.fail(
                f"server {server.id} activates membership {show(version)}, {in_words(ensemble)}, which was never"
                f" committed; the last commit is {show(ghost.committed)}"
            )
        expected = version <= server.tip or server.serving
        if expected and not server.impaired and not ghost.holds(server.tip, version):
            self.fail(
                f"server {server.id} activates membership {show(version)}, which its history up to"
                f" {show(server.tip)} does not contain"
            )


class ReadmittedBySomethingNewer(Checker):
    """A server that lost its promises counts again with a membership that was proposed after its synchronization and
    committed without its vote. Until then, neither the server itself nor its leader counts it.

    A candidate that holds one of the lost promises cannot lead once such a membership is committed. A change that was
    proposed earlier may have been committed with the lost promise.
    """

    invariant = "a server that lost its promises is readmitted by a newer membership"
    by_place = frozenset({"appended"})

    def __init__(self, ghost: OracleState) -> None:
        super().__init__(ghost)
        self._forgot: dict[ServerId, None] = {}
        self._told: dict[tuple[ServerId, ServerId], Zxid] = {}
        """The newest membership, committed or not, at the synchronization of a server, by leader and server."""
        self._just_now: dict[ServerId, Zxid] = {}
        """A change that a leader has proposed in its present step."""

    def started(self, server: ServerState, recovered: Recovered) -> None:
        self._forgot.pop(server.id, None)
        if recovered.forgotten:
            self._forgot[server.id] = None

    def appended(self, server: ServerState, batch: Batch) -> None:
        if batch.config:
            self._just_now[server.id] = batch.last

    def broadcasts(self, server: ServerState, epoch: Epoch) -> None:
        self._just_now.pop(server.id, None)

    def said_new_leader(self, server: ServerState, to: ServerId, message: NewLeader) -> None:
        self._told[server.id, to] = max(message.ensemble.version, self._newest(server))

    def _newest(self, server: ServerState) -> Zxid:
        ghost = self.ghost
        there = ghost.governing[server.tip]
        if self._just_now.get(server.id) == there.version:  # it may have been proposed before or after the message
            there = ghost.governing[ghost.parent[there.version]]
        return there.version

    def remembers(self, server: ServerState, members: Zxid) -> None:
        if server.id not in self._forgot:
            return
        del self._forgot[server.id]
        if server.leader is None:
            self.fail(f"server {server.id} lost its promises, and counts itself without a leader")
            return
        told = self._told.get((server.leader, server.id), NOTHING)
        if members <= told:
            self.fail(
                f"server {server.id} lost its promises, and counts itself with membership {show(members)}, but"
                f" leader {server.leader} had membership {show(told)} already when it synchronized the server"
            )

    def committed(self, server: ServerState, zxid: Zxid, path: list[Zxid] | None) -> None:
        if not path or not self._forgot:
            return
        ghost = self.ghost
        for change in path:
            if ghost.governing[change] is not ghost.governing[ghost.parent[change]]:
                self._check(server, change, ghost.parent[change])
        self._check(server, zxid, zxid)

    def _check(self, server: ServerState, zxid: Zxid, under: Zxid) -> None:
        ensemble = self.ghost.governing[under]
        have = [sid for sid in self.ghost.had(zxid) if self._counts(server, sid, zxid, ensemble.version)]
        if not is_quorum(ensemble, have):
            self.fail(
                f"server {server.id} commits {show(zxid)}, which only {have} have, no quorum of {in_words(ensemble)};"
                f" {[*self._forgot]} lost their promises and do not count"
            )

    def _counts(self, server: ServerState, sid: ServerId, zxid: Zxid, members: Zxid) -> bool:
        """An acknowledgement from before the loss still counts."""
        if sid not in self._forgot or members > self._told.get((server.id, sid), zxid):
            return True
        return any(self.ghost.holds(tip, zxid) for tip in self.ghost.servers[sid].kept)


class EpochsAscend(Checker):
    """On each disk, across restarts, accepted >= current, neither ever decreases, and no log entry has a later
    epoch."""

    invariant = "epochs ascend"

    def durable_epochs(self, server: ServerState, accepted: Epoch, current: Epoch) -> None:
        if accepted < server.accepted or current < server.current:
            self.fail(
                f"server {server.id} saves epochs {accepted}, {current} after {server.accepted}, {server.current}"
            )
        if accepted < max(current, epoch_of(server.durable)):
            self.fail(
                f"server {server.id} adopted epoch {current} and logged {show(server.durable)}, but promised only"
                f" {accepted}"
            )

    def durable_append(self, server: ServerState, batch: Batch) -> None:
        if epoch_of(batch.last) > server.accepted:
            self.fail(f"server {server.id} logs {show(batch.last)}, but promised only epoch {server.accepted}")

    def started(self, server: ServerState, recovered: Recovered) -> None:
        forgets = recovered.accepted < server.accepted or recovered.current < server.current
        if forgets and recovered.voting and not server.went_back:
            self.fail(
                f"server {server.id} restarts with epochs {recovered.accepted}, {recovered.current}"
                f" after {server.accepted}, {server.current}, and votes"
            )


class DurableOnQuorum(Checker):
    """A committed or acknowledged transaction is on the disks of a quorum of every membership concerned."""

    invariant = "durable on a quorum"

    def __init__(self, ghost: OracleState) -> None:
        super().__init__(ghost)
        self._both: tuple[Epoch, Zxid, Zxid] | None = None
        """The epoch in which a membership change was committed, the change, and the end of the transactions behind it
        that other servers had logged by then."""

    def committed(self, server: ServerState, zxid: Zxid, path: list[Zxid] | None) -> None:
        if not path:
            return
        ghost = self.ghost
        self._check(server, zxid, zxid, "commits")
        for change in path:
            if ghost.governing[change] is not ghost.governing[ghost.parent[change]]:
                # The check of the next change, or of the last zxid, shows that the new members have it, too.
                self._check(server, change, ghost.parent[change], "commits")
                if epoch_of(change) == server.epoch:
                    self._both = server.epoch, change, max(zxid, self._logged_by_others(server))
        if self._both is not None:
            epoch, change, until = self._both
            if server.epoch == epoch:
                # Proposed before the others activated the change: a quorum of the former members must have it, too.
                self._check(server, min(zxid, until), ghost.parent[change], "commits")
            if server.epoch != epoch or zxid >= until:
                self._both = None

    def _logged_by_others(self, server: ServerState) -> Zxid:
        """Return the newest of this leader's transactions that another server has on its disk."""
        return max(
            (
                each.durable
                for each in self.ghost.servers
                if each is not server and epoch_of(each.durable) == server.epoch
            ),
            default=NOTHING,
        )

    def acknowledged(self, server: ServerState, zxid: Zxid) -> None:
        self._check(server, zxid, zxid, "acknowledges to a client")

    def _check(self, server: ServerState, zxid: Zxid, under: Zxid, does: str) -> None:
        ghost = self.ghost
        have = ghost.had(zxid)
        ensemble = ghost.governing[under]
        if not is_quorum(ensemble, have):
            self.fail(
                f"server {server.id} {does} {show(zxid)}, which is on the disks of {have}: no quorum of"
                f" {in_words(ensemble)}"
            )


class AdoptedByQuorum(Checker):
    """A leader sends UPTODATE only when a quorum has durably adopted the epoch."""

    invariant = "UPTODATE is sent only after a quorum acknowledged"

    def __init__(self, ghost: OracleState) -> None:
        super().__init__(ghost)
        self._adopted: dict[Epoch, list[ServerId]] = {}

    def durable_epochs(self, server: ServerState, accepted: Epoch, current: Epoch) -> None:
        self._adopts(server, current)

    def started(self, server: ServerState, recovered: Recovered) -> None:
        """A crash during a write may leave an adoption on the disk that was never acknowledged."""
        if recovered.voting:
            self._adopts(server, recovered.current)

    def _adopts(self, server: ServerState, epoch: Epoch) -> None:
        adopted = self._adopted.setdefault(epoch, [])
        if server.id not in adopted:
            adopted.append(server.id)

    def said_up_to_date(self, server: ServerState, to: ServerId, message: UpToDate) -> None:
        initial = self.ghost.initial.get(server.epoch)
        adopted = self._adopted.get(server.epoch, [])
        if initial is None or not is_quorum(self.ghost.governing[initial], adopted):
            self.fail(
                f"server {server.id} sends UPTODATE to {to} in epoch {server.epoch}, which only {adopted} have adopted"
            )
