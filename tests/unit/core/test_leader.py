"""The leader, step by step: which servers it counts, when it commits, and when it steps down."""

from __future__ import annotations

import pytest
from attrs import evolve

from zab.core.batch import Batch, pack, parts_of_change
from zab.core.ensemble import Ensemble, Group, Role, Server
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
from zab.core.leader.leader import Leader
from zab.core.log_state import LogState
from zab.core.messages import (
    ALIVE,
    Ack,
    AckEpoch,
    AckNewLeader,
    BarrierReply,
    BarrierRequest,
    Commit,
    CommitAndActivate,
    Diff,
    FollowerInfo,
    Inform,
    InformAndActivate,
    LeaderInfo,
    NewLeader,
    Ping,
    Pong,
    Propose,
    Trunc,
    UpToDate,
    Veto,
)
from zab.core.ready import BarrierDone, HangUp, Note, Recovered, Settings, with_zookeeper_peers
from zab.core.zxid import EPOCH_MAX, NOTHING, UNKNOWN, Epoch, ServerId, Zxid, make, show

SETTINGS = Settings(tick_ms=100, init_limit=10, sync_limit=5)


def members(*voters: int, observers: tuple[int, ...] = (), version: Zxid = NOTHING) -> Ensemble:
    servers = [Server(ServerId(sid), f"host{sid}", 2888, 3888) for sid in voters]
    servers += [Server(ServerId(sid), f"host{sid}", 2888, 3888, Role.OBSERVER) for sid in observers]
    return Ensemble(tuple(servers), version)


def txn(epoch: int, counter: int, text: str = "x") -> Batch:
    return pack(make(epoch, counter), [text.encode()])


class LeaderFixture:
    """Server 3 as a leader, with a disk that reports only on command."""

    def __init__(
        self,
        *batches: Batch,
        ensemble: Ensemble | None = None,
        settings: Settings = SETTINGS,
        accepted: int = 1,
        current: int = 1,
    ) -> None:
        disk = Recovered(Epoch(accepted), Epoch(current), batches=batches)
        self.log_state = LogState(ServerId(3), ensemble or members(1, 2, 3), disk, settings)
        self.role = Leader(self.log_state, 0)
        self.waiting: list[int] = []
        self.sent: list[tuple[int, object]] = []
        self.links: list[object] = []
        self.barriers: list[BarrierDone] = []
        self.notes: list[Note] = []
        self.drain()

    @property
    def phase_name(self) -> str:
        return self.role.phase.name.upper()

    def drain(self) -> None:
        self.role.flush(0)
        ready = self.log_state.out.drain()
        self.waiting += [write.ticket for write in ready.save]
        self.sent += [(envelope.to, envelope.message) for envelope in ready.send]
        self.links += ready.links
        self.barriers += ready.barriers
        self.notes += ready.notes

    def said(self, to: int) -> list[object]:
        """Return the messages to this learner since the last call."""
        found = [message for receiver, message in self.sent if receiver == to]
        self.sent = [each for each in self.sent if each[0] != to]
        return found

    def hear(self, source: int, *messages: object, now: int = 0) -> list[object]:
        """Handle a message, and return the replies to its sender."""
        self.said(source)
        for message in messages:
            self.role.handle(ServerId(source), message, now)
            self.drain()
        return self.said(source)

    def save(self, count: int | None = None) -> None:
        tickets = self.waiting[:count]
        self.waiting = self.waiting[len(tickets) :]
        if tickets:
            self.role.saved(tickets[-1], self.log_state.saved(tickets[-1]), 0)
        self.drain()

    def greet(self, sid: int, *, accepted: int = 1, observer: bool = False, version: Zxid = NOTHING) -> list[object]:
        self.role.link_up(ServerId(sid), 0)
        return self.hear(sid, FollowerInfo(Epoch(accepted), version, observer))

    def digest(self, zxid: Zxid) -> int:
        return self.log_state.history.digest_at(zxid) or 0

    def promise(self, sid: int, last: Zxid = NOTHING, *, epoch: int = 1, **more: bool) -> list[object]:
        digest = self.digest(last) if NOTHING <= last <= self.log_state.history.last else 0
        return self.hear(sid, AckEpoch(Epoch(epoch), last, digest, **more))

    def join(self, sid: int, last: Zxid = NOTHING, *, observer: bool = False) -> list[object]:
        self.greet(sid, observer=observer)
        self.promise(sid, last)
        assert self.role.epoch is not None
        return self.hear(sid, AckNewLeader(self.role.epoch))

    def propose(self, *texts: str) -> Zxid:
        first = self.role.propose([text.encode() for text in texts], 0)
        self.drain()
        return first

    def reconfigure(self, ensemble: Ensemble, expect: Zxid | None = None) -> Zxid:
        zxid = self.role.reconfigure(ensemble, expect, 0)
        self.drain()
        return zxid

    def ack(self, sid: int, zxid: Zxid) -> list[object]:
        return self.hear(sid, Ack(zxid))


def established(*followers: int, ensemble: Ensemble | None = None, settings: Settings = SETTINGS) -> LeaderFixture:
    """Leads epoch 2 with these followers; its disk is up to date."""
    leader = LeaderFixture(ensemble=ensemble, settings=settings)
    for sid in followers:
        leader.greet(sid)
    leader.save()
    for sid in followers:
        leader.promise(sid)
    leader.save()
    for sid in followers:
        leader.hear(sid, AckNewLeader(Epoch(2)))
    leader.save()
    assert leader.phase_name == "BROADCAST"
    leader.sent.clear()
    return leader


# -- discovery ---------------------------------------------------------------------------------------------------


def test_new_epoch_exceeds_all_promises_and_is_durable_before_its_announcement() -> None:
    leader = LeaderFixture(accepted=4)
    assert leader.role.epoch is None
    assert leader.greet(2, accepted=7) == []
    assert leader.log_state.accepted == 8
    leader.save()
    assert leader.said(2) == [LeaderInfo(Epoch(8))]
    assert leader.greet(1, accepted=3) == [LeaderInfo(Epoch(8))], "latecomers are told what stands"


def test_late_learner_gets_the_epoch_no_sooner_than_the_others() -> None:
    leader = LeaderFixture()
    leader.greet(2)
    assert leader.greet(1) == []
    leader.save()
    assert leader.said(1) == leader.said(2) == [LeaderInfo(Epoch(2))]


@pytest.mark.mechanism(92)
def test_an_observer_raises_the_epoch_and_is_no_quorum() -> None:
    leader = LeaderFixture(ensemble=members(1, 2, 3, observers=(4, 5)))
    leader.greet(4, accepted=9, observer=True)
    leader.greet(5, observer=True)
    assert leader.role.epoch is None
    leader.greet(2)
    assert leader.role.epoch == 10


def test_a_newer_promise_behind_the_choice_ends_it() -> None:
    leader = established(2)
    leader.greet(1, accepted=5)
    assert leader.role.over == "server 1 has a promise or a membership of the newer epoch 5"


def test_a_stranger_with_a_newer_promise_ends_nothing() -> None:
    leader = established(2)
    leader.greet(4, accepted=5)
    assert leader.role.over is None


def test_learner_with_a_newer_membership_does_not_follow() -> None:
    leader = LeaderFixture()
    leader.greet(2, version=make(1, 7))
    assert leader.links == [HangUp(ServerId(2), dialled=False)]
    assert leader.role.epoch is None


def test_decided_leader_compares_histories_with_a_survivor_that_knows_a_newer_membership() -> None:
    """Setting: a majority was wiped and began epoch 2 anew; in the former history, 2/7 changed the membership."""
    leader = established(2)
    leader.propose("new")
    assert leader.greet(1, accepted=2, version=make(2, 7)) == [LeaderInfo(Epoch(2))]
    sent = leader.promise(1, make(2, 9), epoch=2, counts=False)
    assert isinstance(sent[0], Trunc)
    assert sent[0].common == NOTHING
    assert leader.role.over is None


def test_membership_of_a_newer_epoch_proves_a_newer_promise() -> None:
    leader = established(2)
    leader.greet(1, accepted=2, version=make(5, 0))
    assert leader.role.over == "server 1 has a promise or a membership of the newer epoch 5"
    assert leader.log_state.newest_promise == 5

    leader = established(2)
    leader.greet(4, accepted=2, version=make(5, 0))
    assert (leader.role.over, leader.links) == (None, [HangUp(ServerId(4), dialled=False)]), "a stranger is refused"


def test_a_promise_that_does_not_count_is_synchronized_and_not_counted() -> None:
    leader = LeaderFixture()
    leader.greet(2)
    leader.save()
    assert leader.promise(2, counts=False) == []
    assert leader.phase_name == "DISCOVERY"
    leader.greet(1)
    leader.promise(1)
    assert leader.phase_name == "SYNCHRONIZATION"
    assert leader.said(2) == [Diff(NOTHING, 0), NewLeader(Epoch(2), members(1, 2, 3, version=make(2, 0)))]


@pytest.mark.parametrize(
    ("epoch", "last", "newer"),
    [(1, make(1, 3), True), (2, make(1, 1), True), (1, make(1, 2), False), (0, make(1, 9), False)],
    ids=["longer", "a newer epoch", "the same", "longer, but of an older epoch"],
)
def test_leader_gives_up_with_an_older_history_than_a_promise(epoch: int, last: Zxid, newer: bool) -> None:
    leader = LeaderFixture(txn(1, 1), txn(1, 2))
    leader.greet(2)
    leader.save()
    leader.promise(2, last, epoch=epoch)
    assert (leader.role.over is not None) == newer


def test_behind_broadcast_a_newer_history_is_only_a_tail_to_cut() -> None:
    leader = established(2)
    leader.greet(1)
    leader.promise(1, make(1, 4))
    assert leader.role.over is None


def test_server_of_weight_zero_is_never_needed() -> None:
    weightless = evolve(members(1, 2, 3), groups=(Group(1, tuple(map(ServerId, (1, 2, 3)))),), weights={ServerId(1): 0})
    leader = LeaderFixture(ensemble=weightless)
    leader.greet(2)
    leader.greet(1)
    leader.save()
    leader.promise(1, make(1, 5))
    assert leader.role.over is None


def test_a_damaged_history_vouches_for_its_promise_only() -> None:
    leader = LeaderFixture(txn(1, 1), ensemble=members(1, 2, 3, 4, 5))
    for sid in (1, 2, 4):
        leader.greet(sid)
    leader.save()
    leader.promise(1, UNKNOWN)
    leader.promise(2, UNKNOWN)
    assert leader.phase_name == "DISCOVERY", "1, 2 and another may have decided what 3 never heard of"
    leader.promise(4, make(1, 1))
    assert leader.phase_name == "DISCOVERY"
    leader.greet(5)
    leader.promise(5, make(1, 1))
    assert leader.phase_name == "SYNCHRONIZATION"


def test_the_epochs_end() -> None:
    with pytest.raises(LocalProtocolError):
        LeaderFixture(ensemble=members(3), accepted=EPOCH_MAX)


# -- synchronization ---------------------------------------------------------------------------------------------


@pytest.mark.mechanism(113)
def test_the_leader_counts_itself_when_its_own_epoch_is_durable() -> None:
    leader = LeaderFixture(txn(1, 1))
    leader.greet(2)
    leader.save()
    leader.promise(2, make(1, 1))
    assert leader.hear(2, AckNewLeader(Epoch(2))) == []
    assert leader.phase_name == "SYNCHRONIZATION"
    leader.save()
    assert leader.said(2) == [UpToDate(make(1, 1))]
    assert leader.log_state.applied == make(1, 1)


@pytest.mark.mechanism(113)
def test_a_late_learner_is_up_to_date_as_soon_as_it_is_synchronized() -> None:
    leader = established(2)
    zxid = leader.propose("a")
    leader.greet(1)
    sent = leader.promise(1)
    assert sent[:2] == [Diff(NOTHING, 0), Propose(txn(2, 1, "a"))]
    leader.propose("b")
    assert leader.said(1) == [Propose(txn(2, 2, "b"))], "behind its synchronization, without a gap"
    leader.save()
    assert leader.hear(1, AckNewLeader(Epoch(2)))[0] == UpToDate(NOTHING)
    assert leader.log_state.committed == zxid, "its acknowledgement of the epoch is one of what came with it"


def test_a_forgetful_server_is_synchronized_and_not_counted() -> None:
    leader = established(2)
    leader.greet(1)
    leader.promise(1, counts=False, forgotten=True)
    leader.hear(1, AckNewLeader(Epoch(2)))
    assert leader.log_state.pending is not None, "a membership to readmit it by"
    change = leader.log_state.pending.version
    leader.save()
    leader.ack(1, change)
    assert leader.log_state.committed == NOTHING
    leader.ack(2, change)
    assert leader.log_state.committed == change
    zxid = leader.propose("a")
    leader.save()
    leader.ack(1, zxid)
    assert leader.log_state.committed == zxid, "from now on it counts"


def test_readmission_with_an_exhausted_counter_ends_the_epoch() -> None:
    leader = established(2, settings=evolve(SETTINGS, counter_max=1))
    leader.propose("a")
    leader.greet(1)
    leader.promise(1, counts=False, forgotten=True)
    leader.hear(1, AckNewLeader(Epoch(2)))
    assert leader.role.over == "the counter of this epoch is used up"


# -- broadcast ---------------------------------------------------------------------------------------------------


@pytest.mark.mechanism(120)
def test_acks_are_cumulative_and_so_are_commits() -> None:
    leader = established(1, 2)
    leader.propose("a", "b", "c")
    leader.propose("d")
    leader.sent.clear()
    leader.save()
    assert leader.ack(1, make(2, 2)) == [Commit(make(2, 2))]
    assert leader.ack(2, make(2, 4)) == [Commit(make(2, 4))]
    assert leader.ack(1, make(2, 4)) == []


@pytest.mark.mechanism(89)
def test_the_leaders_own_disk_is_one_of_three() -> None:
    leader = established(1, 2)
    zxid = leader.propose("a")
    leader.ack(1, zxid)
    assert leader.log_state.committed == NOTHING
    leader.ack(2, zxid)
    assert (leader.log_state.committed, leader.log_state.applied) == (zxid, NOTHING)
    leader.save()
    assert leader.log_state.applied == zxid


def test_an_old_ack_is_nothing_new_and_a_future_one_is_a_lie() -> None:
    leader = established(1, 2)
    leader.propose("a", "b")
    leader.ack(1, make(2, 2))
    assert leader.ack(1, make(2, 1)) == []
    with pytest.raises(RemoteProtocolError):
        leader.ack(2, make(2, 3))


@pytest.mark.parametrize("phase", ["before the epoch", "before the promise", "before NEWLEADER is acknowledged"])
def test_an_ack_before_its_time_breaks_the_rules(phase: str) -> None:
    leader = established(2)
    leader.propose("a")
    leader.role.link_up(ServerId(1), 0)
    if phase != "before the epoch":
        leader.hear(1, FollowerInfo(Epoch(1), NOTHING))
    if phase == "before NEWLEADER is acknowledged":
        leader.promise(1)
    with pytest.raises(RemoteProtocolError):
        leader.ack(1, make(2, 1))


@pytest.mark.parametrize(
    "message",
    [FollowerInfo(Epoch(1), NOTHING), AckEpoch(Epoch(1), NOTHING, 0), AckNewLeader(Epoch(2)), Pong(99)],
    ids=lambda message: type(message).__name__,
)
def test_repeated_or_unrequested_messages_violate_the_protocol(message: object) -> None:
    leader = established(2)
    with pytest.raises(RemoteProtocolError):
        leader.hear(2, message)


def test_an_acknowledgement_of_another_epoch_breaks_the_rules() -> None:
    leader = established(2)
    leader.greet(1)
    leader.promise(1)
    with pytest.raises(RemoteProtocolError):
        leader.hear(1, AckNewLeader(Epoch(1)))


@pytest.mark.mechanism(92)
def test_observers_receive_only_committed_batches() -> None:
    leader = established(1, 2, ensemble=members(1, 2, 3, observers=(4,)))
    leader.join(4, observer=True)
    zxid = leader.propose("a")
    assert leader.said(4) == []
    leader.save()
    leader.ack(1, zxid)
    assert leader.said(4) == [Inform(txn(2, 1, "a"))]


def test_observer_receives_the_missing_part_of_a_batch() -> None:
    leader = established(1, 2, ensemble=members(1, 2, 3, observers=(4,)))
    leader.propose("a", "b", "c")
    leader.save()
    leader.ack(1, make(2, 2))
    leader.join(4, observer=True)
    leader.said(4)
    leader.ack(1, make(2, 3))
    assert leader.said(4) == [Inform(txn(2, 3, "c"))]


# -- open proposals after NEWLEADER ------------------------------------------------------------------------------

OPEN_LATER = evolve(SETTINGS, open_before_new_leader=False)


def test_open_proposals_follow_newleader_if_its_acknowledgement_does_not_cover_them() -> None:
    leader = established(2, settings=OPEN_LATER)
    leader.propose("decided")
    leader.save()
    leader.ack(2, make(2, 1))
    leader.propose("open")
    leader.propose("open, too")
    leader.greet(1)
    sent = leader.promise(1)
    assert [type(message) for message in sent] == [Diff, Propose, NewLeader, Propose, Propose]
    assert [message.batch.first for message in sent if isinstance(message, Propose)] == [
        make(2, 1), make(2, 2), make(2, 3)
    ]  # fmt: skip
    leader.save()
    assert leader.hear(1, AckNewLeader(Epoch(2))) == [UpToDate(make(2, 1))]
    assert leader.log_state.committed == make(2, 1), "the acknowledgement of NEWLEADER does not cover them"
    leader.ack(1, make(2, 2))
    assert leader.log_state.committed == make(2, 2)


def test_open_proposals_before_newleader_are_covered_by_its_acknowledgement() -> None:
    leader = established(2)
    leader.propose("open")
    leader.save()
    leader.greet(1)
    sent = leader.promise(1)
    assert [type(message) for message in sent] == [Diff, Propose, NewLeader]
    leader.hear(1, AckNewLeader(Epoch(2)))
    assert leader.log_state.committed == make(2, 1)


def test_the_whole_initial_history_comes_before_newleader() -> None:
    """It is not decided yet. But a server that has adopted the epoch must have all of it."""
    leader = LeaderFixture(txn(1, 1), txn(1, 2), settings=OPEN_LATER)
    leader.greet(2)
    leader.save()
    sent = leader.promise(2)
    assert [type(message) for message in sent] == [Diff, Propose, Propose, NewLeader]
    assert leader.log_state.committed == NOTHING
    leader.save()
    leader.hear(2, AckNewLeader(Epoch(2)))
    assert leader.log_state.committed == make(1, 2)
    leader.greet(1)
    leader.propose("open")
    sent = leader.promise(1)
    assert [type(message) for message in sent] == [Diff, Propose, Propose, NewLeader, Propose]


def test_a_follower_that_kept_open_proposals_has_them_before_newleader() -> None:
    """They are in its log already, and it reported them as its history."""
    leader = established(1, 2, settings=OPEN_LATER)
    leader.propose("a")
    leader.propose("b")
    leader.role.link_down(ServerId(1), 0)
    leader.greet(1, accepted=2)
    sent = leader.promise(1, make(2, 1), epoch=2, counts=False)
    assert sent[0] == Diff(make(2, 1), leader.digest(make(2, 1)))
    assert [type(message) for message in sent[1:]] == [NewLeader, Propose]
    leader.save()
    leader.hear(1, AckNewLeader(Epoch(2)))
    assert leader.log_state.committed == make(2, 1)


def test_newleader_names_the_last_change_of_the_learners_history() -> None:
    """No commit activates a change that a learner of ZooKeeper had before: it activates what NEWLEADER has named."""
    leader = established(1, 2, settings=OPEN_LATER)
    leader.reconfigure(members(1, 2))
    leader.role.link_down(ServerId(1), 0)
    leader.role.link_down(ServerId(2), 0)
    for sid, last, version in ((1, make(2, 1), make(2, 1)), (2, NOTHING, make(2, 0))):
        leader.greet(sid, accepted=2)
        sent = leader.promise(sid, last, epoch=2, counts=False)
        (named,) = [message.ensemble.version for message in sent if isinstance(message, NewLeader)]
        assert named == version
    assert leader.log_state.pending is not None


def test_change_has_the_payload_that_is_attached_to_it() -> None:
    leader = established(1, 2)
    zxid = leader.role.reconfigure(members(1, 2), None, 0, b"attached")
    (batch,) = leader.log_state.history.after(NOTHING)
    assert leader.log_state.pending == evolve(members(1, 2), version=zxid)
    assert parts_of_change(*batch.payloads()) == (evolve(members(1, 2), version=zxid).text(), b"attached")


def test_no_server_is_readmitted_whose_synchronization_brings_no_open_proposals() -> None:
    leader = established(2, settings=OPEN_LATER)
    leader.greet(1)
    leader.promise(1, counts=False, forgotten=True)
    leader.hear(1, AckNewLeader(Epoch(2)))
    assert leader.log_state.pending is None, "no membership is proposed for it"
    leader.reconfigure(members(1, 2, 3))
    leader.save()
    leader.ack(1, make(2, 1))
    assert leader.log_state.committed == NOTHING, "it does not count"
    leader.ack(2, make(2, 1))
    assert leader.log_state.committed == make(2, 1)
    leader.propose("next")
    leader.save()
    leader.ack(1, make(2, 2))
    assert leader.log_state.committed == make(2, 1), "nor does it after a change"


def test_a_membership_without_a_version_stays_so_and_does_not_change() -> None:
    leader = established(1, 2, settings=evolve(SETTINGS, membership_versions=False))
    assert leader.log_state.ensemble == members(1, 2, 3)
    with pytest.raises(ConfigError, match="membership_versions is off"):
        leader.reconfigure(members(1, 3))


def test_the_rules_for_peers_of_zookeeper_are_set_together() -> None:
    usual = with_zookeeper_peers(Settings(), reconfig_enabled=True)
    assert (usual.open_before_new_leader, usual.diff_after_trunc) == (False, False)
    assert (usual.dial_for_init_limit, usual.membership_versions) == (True, True)
    assert with_zookeeper_peers(Settings(), reconfig_enabled=False) == evolve(usual, membership_versions=False)


# -- limits ------------------------------------------------------------------------------------------------------


def test_so_much_may_be_outstanding() -> None:
    leader = established(1, 2, settings=evolve(SETTINGS, outstanding_max=3, outstanding_bytes_max=100))
    leader.propose("a", "b")
    with pytest.raises(Overloaded):
        leader.propose("c", "d")
    leader.propose("c")
    leader.save()
    leader.ack(1, make(2, 3))
    leader.propose("x" * 200)
    with pytest.raises(Overloaded):
        leader.propose("y")
    assert leader.log_state.history.last == make(2, 4), "an error changes nothing"


def test_more_than_the_limit_in_one_batch_is_let_through_alone() -> None:
    leader = established(1, 2, settings=evolve(SETTINGS, outstanding_max=2))
    leader.propose("a", "b", "c")
    with pytest.raises(Overloaded):
        leader.propose("d")


@pytest.mark.mechanism(103)
def test_the_counter_ends_with_the_epoch() -> None:
    leader = established(1, settings=evolve(SETTINGS, counter_max=2))
    leader.propose("a", "b")
    with pytest.raises(NotLeader, match="counter"):
        leader.propose("c")
    assert leader.role.over == "the counter of this epoch is used up"


def test_nothing_is_no_proposal_and_before_broadcast_there_is_none() -> None:
    with pytest.raises(LocalProtocolError):
        established(1).propose()
    with pytest.raises(NotLeader):
        LeaderFixture().propose("a")


# -- time --------------------------------------------------------------------------------------------------------


def test_without_a_quorum_a_phase_ends_in_time() -> None:
    leader = LeaderFixture()
    leader.role.tick(SETTINGS.init_ms - 1)
    assert leader.role.over is None
    leader.role.tick(SETTINGS.init_ms)
    assert leader.role.over == "no quorum in discovery"


def test_each_phase_has_its_own_time() -> None:
    leader = LeaderFixture()
    almost = SETTINGS.init_ms - 1
    leader.role.link_up(ServerId(2), almost)
    leader.hear(2, FollowerInfo(Epoch(1), NOTHING), now=almost)
    leader.save()
    leader.role.tick(2 * almost)
    assert leader.role.over is None, "the promises have a time of their own"
    leader.hear(2, AckEpoch(Epoch(1), NOTHING, 0), now=2 * almost)
    leader.role.tick(3 * almost)
    assert leader.role.over is None, "and so has synchronization"
    leader.role.tick(2 * almost + SETTINGS.init_ms)
    assert leader.role.over == "no quorum in synchronization"


def test_pings_go_out_each_half_tick_and_silence_costs_the_link() -> None:
    leader = established(1, 2)
    for now in range(50, SETTINGS.sync_ms, 50):
        leader.role.tick(now)
        leader.drain()
        leader.hear(2, Pong(now // 50), now=now)
    pings = [message for message in leader.said(1) if isinstance(message, Ping)]
    assert [ping.number for ping in pings] == list(range(1, len(pings) + 1))
    leader.role.tick(SETTINGS.init_ms + SETTINGS.sync_ms)
    leader.drain()
    assert HangUp(ServerId(1), dialled=False) in leader.links


def test_a_follower_that_does_not_acknowledge_is_dropped_although_it_answers() -> None:
    leader = established(1, 2)
    zxid = leader.propose("a")
    leader.ack(2, zxid)
    for now in range(50, SETTINGS.sync_ms + 101, 50):
        leader.role.tick(now)
        leader.drain()
        if 1 in leader.role.learners:
            leader.hear(1, Pong(now // 50), now=now)
        leader.hear(2, Pong(now // 50), now=now)
    assert sorted(leader.role.learners) == [2]
    assert leader.role.over is None


def test_observer_that_joins_under_a_write_is_not_dropped() -> None:
    leader = established(1, 2, ensemble=members(1, 2, 3, observers=(4,)))
    zxid = leader.propose("a")
    leader.join(4, observer=True)
    leader.save()
    for sid in (1, 2):
        leader.ack(sid, zxid)
    for now in range(50, 2 * SETTINGS.sync_ms, 50):
        leader.role.tick(now)
        leader.drain()
        for sid in sorted(leader.role.learners):
            leader.hear(sid, Pong(now // 50), now=now)
    assert sorted(leader.role.learners) == [1, 2, 4]


def test_the_age_of_the_oldest_unacknowledged_proposal_counts_and_not_of_the_newest() -> None:
    leader = established(1, 2)
    now = 0
    while 1 in leader.role.learners:
        now += 50
        assert now < 10 * SETTINGS.sync_ms, "it never caught up, and nobody minded"
        leader.role.propose([b"x"], now)
        leader.drain()
        leader.hear(2, Ack(leader.log_state.history.last), now=now)
        leader.hear(1, Pong(0), now=now)
        leader.role.tick(now)
        leader.drain()
    assert now <= SETTINGS.sync_ms + 150


@pytest.mark.mechanism(99)
def test_a_leader_that_a_quorum_no_longer_follows_lets_go() -> None:
    leader = established(2)
    leader.role.link_down(ServerId(2), 0)
    leader.role.tick(50)
    leader.role.tick(100)
    assert leader.role.over == "a quorum no longer follows"


def test_leaving_leader_cuts_all_links() -> None:
    leader = established(1, 2)
    leader.role.barrier(7)
    leader.role.leave()
    leader.drain()
    assert leader.links == [HangUp(ServerId(1), dialled=False), HangUp(ServerId(2), dialled=False)]
    assert leader.barriers == [BarrierDone(7, None)]


# -- barriers ----------------------------------------------------------------------------------------------------


def test_a_barrier_needs_a_quorum_of_pongs_to_a_ping_behind_the_question() -> None:
    leader = established(1, 2)
    leader.role.tick(50)
    leader.drain()
    leader.role.barrier(7)
    leader.drain()
    leader.hear(1, Pong(1))
    assert leader.barriers == []
    leader.hear(2, Pong(2))
    assert leader.barriers == [BarrierDone(7, NOTHING)]


def test_the_questions_of_one_turn_share_a_ping() -> None:
    leader = established(1, 2)
    leader.role.handle(ServerId(1), BarrierRequest(1), 0)
    leader.role.handle(ServerId(2), BarrierRequest(1), 0)
    leader.role.barrier(7)
    leader.drain()
    assert leader.said(2) == [Ping(1, NOTHING)]
    assert leader.hear(1, Pong(1)) == [BarrierReply(1, NOTHING)]
    assert (leader.said(2), leader.barriers) == ([BarrierReply(1, NOTHING)], [BarrierDone(7, NOTHING)])


def test_the_leaders_own_barrier_waits_for_its_own_disk() -> None:
    leader = established(1, 2)
    zxid = leader.propose("a")
    leader.ack(1, zxid)
    leader.ack(2, zxid)
    leader.role.barrier(7)
    leader.drain()
    leader.hear(1, Pong(1))
    assert leader.barriers == []
    leader.save()
    assert leader.barriers == [BarrierDone(7, zxid)]


def test_pongs_of_uncounted_servers_prove_nothing() -> None:
    leader = established(2, ensemble=members(1, 2, 3, observers=(4,)))
    leader.join(4, observer=True)
    leader.greet(1)
    leader.promise(1)
    leader.role.barrier(7)
    leader.drain()
    leader.hear(4, Pong(1))
    leader.hear(1, Pong(1))
    assert leader.barriers == [], "4 observes, and 1 has not acknowledged the epoch"
    leader.hear(2, Pong(1))
    assert leader.barriers == [BarrierDone(7, NOTHING)]


def test_the_questions_of_a_link_end_with_it() -> None:
    leader = established(1, 2)
    leader.hear(1, BarrierRequest(1))
    leader.role.link_down(ServerId(1), 0)
    leader.hear(2, Pong(1))
    assert leader.said(1) == []


# -- membership --------------------------------------------------------------------------------------------------


def growing() -> tuple[LeaderFixture, Zxid]:
    """1 2 3 with 4 and 5 at hand, and the change to 3 4 5 proposed."""
    leader = established(1, 2)
    for sid in (4, 5):
        leader.join(sid)
    change = leader.reconfigure(members(3, 4, 5))
    leader.save()
    return leader, change


@pytest.mark.parametrize("acks", [(1, 2), (4, 5)], ids=["the old", "the new"])
def test_neither_quorum_decides_alone(acks: tuple[int, int]) -> None:
    leader, change = growing()
    for sid in acks:
        leader.ack(sid, change)
    assert leader.log_state.committed == NOTHING
    other = 4 if acks == (1, 2) else 1
    assert leader.ack(other, change)[0] == CommitAndActivate(change, ServerId(3))
    assert leader.log_state.ensemble.voters == (3, 4, 5)


def test_proposals_before_a_change_need_only_the_old_quorum() -> None:
    leader = established(1, 2)
    for sid in (4, 5):
        leader.join(sid)
    before = leader.propose("before")
    change = leader.reconfigure(members(3, 4, 5))
    leader.save()
    leader.ack(1, change)
    assert leader.log_state.committed == before


def test_proposals_after_a_pending_change_need_both_quorums_to_the_end() -> None:
    """4 and 5 hold it without knowing that the change is in force: only the old ones make it last."""
    leader, change = growing()
    behind = leader.propose("behind")
    leader.save()
    for sid in (4, 5):
        leader.ack(sid, behind)
    leader.ack(1, change)
    assert leader.log_state.committed == change
    leader.ack(1, behind)
    assert leader.log_state.committed == behind


def test_proposals_in_the_new_membership_need_only_its_quorum() -> None:
    leader, change = growing()
    for sid in (1, 4):
        leader.ack(sid, change)
    later = leader.propose("later")
    leader.save()
    leader.ack(5, later)
    assert leader.log_state.committed == later


def test_leader_steps_down_if_a_proposal_needs_removed_servers_that_are_gone() -> None:
    leader, change = growing()
    behind = leader.propose("behind")
    leader.save()
    for sid, zxid in ((4, behind), (5, behind), (1, change)):
        leader.ack(sid, zxid)
    for sid in (1, 2):
        leader.role.link_down(ServerId(sid), 0)
    leader.role.tick(50)
    leader.role.tick(100)
    assert leader.role.over == "a quorum of the former membership no longer follows"


@pytest.mark.parametrize(
    ("knows", "gives_up"), [(NOTHING, False), (make(1, 1), True)], ids=["not known to be in force", "in force"]
)
def test_newer_history_of_a_server_that_only_a_pending_change_adds(knows: Zxid, gives_up: bool) -> None:
    change = pack(make(1, 1), [members(3, 4, 5, version=make(1, 1)).text().encode()], config=True)
    leader = LeaderFixture(change)
    for sid in (1, 2):
        leader.greet(sid)
    leader.greet(4, version=knows)
    leader.save()
    leader.promise(4, make(1, 2))
    assert (leader.role.over is not None) == gives_up


def test_one_change_at_a_time() -> None:
    leader, change = growing()
    with pytest.raises(ReconfigInProgress):
        leader.reconfigure(members(3, 4))
    for sid in (1, 4):
        leader.ack(sid, change)
    with pytest.raises(WrongVersion):
        leader.reconfigure(members(3, 4), expect=make(2, 0))
    leader.reconfigure(members(3, 4), expect=change)


@pytest.mark.parametrize(
    ("ensemble", "error"),
    [
        (members(3, 8, 9), NewConfigNoQuorum),
        (members(observers=(3,)), ConfigError),
        (
            Ensemble((Server(ServerId(3), "same", 2888, 3888), Server(ServerId(1), "same", 2888, 3889))),
            ConfigError,
        ),
    ],
    ids=["nobody there", "nobody votes", "two at one address"],
)
def test_a_change_that_makes_no_sense_is_refused_and_leaves_no_trace(
    ensemble: Ensemble, error: type[ConfigError]
) -> None:
    leader = established(1, 2)
    with pytest.raises(error):
        leader.reconfigure(ensemble)
    assert (leader.log_state.pending, leader.log_state.history.last, leader.said(1)) == (None, NOTHING, [])


def test_only_a_leader_in_broadcast_changes_the_membership() -> None:
    with pytest.raises(NotLeader):
        LeaderFixture().reconfigure(members(3))


def test_an_observer_is_no_part_of_a_new_quorum() -> None:
    """An observer acknowledges nothing, so the change could never be committed."""
    leader = established(ensemble=members(3, observers=(4,)))
    leader.join(4, observer=True)
    with pytest.raises(NewConfigNoQuorum):
        leader.reconfigure(members(3, 4))


def test_a_server_that_may_have_lost_promises_is_no_part_of_a_new_quorum() -> None:
    leader = established(ensemble=members(3))
    leader.greet(4)
    leader.promise(4, counts=False, forgotten=True)
    leader.hear(4, AckNewLeader(Epoch(2)))
    with pytest.raises(NewConfigNoQuorum, match=r"\[4\] do not count, because they may have lost promises"):
        leader.reconfigure(members(3, 4))


def test_removed_leader_designates_the_voter_with_the_newest_acknowledgement() -> None:
    leader = established(1, 2)
    change = leader.reconfigure(members(1, 2))
    behind = leader.propose("behind")
    leader.save()
    leader.ack(1, behind)
    assert leader.ack(2, change)[-1] == CommitAndActivate(change, ServerId(1))
    assert (leader.role.over, leader.role.designated) == ("this server is no longer a voter", 1)


def test_observer_receives_a_membership_change_with_its_designated_leader() -> None:
    leader = established(1, 2, ensemble=members(1, 2, 3, observers=(4,)))
    leader.join(4, observer=True)
    change = leader.reconfigure(members(2, 3, observers=(4,)))
    leader.save()
    leader.ack(1, change)
    leader.ack(2, change)
    (informed,) = leader.said(4)
    assert isinstance(informed, InformAndActivate)
    assert (informed.batch.first, informed.designated) == (change, 3)


def test_a_change_in_the_initial_history_is_finished_with_the_epoch() -> None:
    change = pack(make(1, 1), [members(2, 3, version=make(1, 1)).text().encode()], config=True)
    leader = LeaderFixture(change)
    leader.greet(1)
    assert leader.role.epoch is None, "1 and 3 are a quorum of the old membership only"
    leader.greet(2)
    leader.save()
    leader.promise(1)
    assert leader.phase_name == "DISCOVERY"
    leader.promise(2, make(1, 1))
    leader.save()
    leader.hear(1, AckNewLeader(Epoch(2)))
    assert leader.phase_name == "SYNCHRONIZATION"
    leader.hear(2, AckNewLeader(Epoch(2)))
    assert leader.phase_name == "BROADCAST"
    assert leader.log_state.ensemble.version == make(1, 1)


# -- synchronizations that take long -----------------------------------------------------------------------------


GIVEN_MS = SETTINGS.init_ms + SETTINGS.sync_ms


def with_a_late_learner() -> LeaderFixture:
    """Server 1 is being synchronized since 0 ms; server 2 follows."""
    leader = established(2)
    leader.greet(1)
    leader.promise(1)
    return leader


def at(leader: LeaderFixture, now: int) -> None:
    leader.hear(2, Pong(0), now=now)
    leader.role.tick(now)
    leader.drain()


@pytest.mark.parametrize("by", ["bytes sent", "report of the learner"])
def test_synchronization_that_makes_progress_is_not_given_up(by: str) -> None:
    leader = with_a_late_learner()
    for step in range(1, 8):
        now = step * (GIVEN_MS - 1)
        if by == "bytes sent":
            leader.role.progress(ServerId(1), step * 1_000, now)
        else:
            leader.hear(1, ALIVE, now=now)
        at(leader, now)
    assert leader.links == []
    assert 1 in leader.role.learners


def test_synchronization_that_stalls_is_given_up_and_the_reason_names_setting_and_rate() -> None:
    leader = with_a_late_learner()
    leader.role.progress(ServerId(1), 3_000, 500)
    leader.role.progress(ServerId(1), 3_000, 500 + GIVEN_MS - 1)  # no more than before
    at(leader, 500 + GIVEN_MS - 1)
    assert leader.links == []
    leader.role.tick(500 + GIVEN_MS + SETTINGS.tick_ms)
    (note,) = [note for note in leader.log_state.out.notes if note.event == "learner_dropped"]
    assert dict(note.fields)["why"] == (
        "its synchronization made no progress for 1500 ms, the limit of (init_limit + sync_limit) * tick_ms; "
        "3000 bytes were sent in 2100 ms, 1428 bytes/s"
    )


def test_progress_of_a_long_synchronization_is_logged_every_ten_seconds() -> None:
    leader = with_a_late_learner()
    for second in range(26):
        leader.role.progress(ServerId(1), 1_000 * second, 1_000 * second)
    notes = [note for note in leader.log_state.out.notes if note.event == "synchronizing"]
    assert [dict(note.fields) for note in notes] == [
        {"peer": 1, "bytes": 10_000, "bytes_per_s": 1_000},
        {"peer": 1, "bytes": 20_000, "bytes_per_s": 1_000},
    ]


def test_phase_lasts_while_a_quorum_makes_progress() -> None:
    leader = LeaderFixture()
    leader.greet(2)
    leader.save()
    leader.promise(2)
    leader.save()
    assert leader.phase_name == "SYNCHRONIZATION"
    leader.hear(2, ALIVE, now=SETTINGS.init_ms - 1)
    leader.role.tick(SETTINGS.init_ms + 10)
    assert leader.role.over is None
    leader.role.tick(2 * SETTINGS.init_ms)
    assert leader.role.over == "no quorum in synchronization"


def test_progress_of_too_few_does_not_keep_the_phase() -> None:
    leader = LeaderFixture(ensemble=members(1, 2, 3, 4, 5))
    for sid in (1, 2):
        leader.greet(sid)
    leader.save()
    for sid in (1, 2):
        leader.promise(sid)
    leader.save()
    assert leader.phase_name == "SYNCHRONIZATION"
    leader.role.link_down(ServerId(1), 10)
    leader.hear(2, ALIVE, now=SETTINGS.init_ms - 1)
    leader.role.tick(SETTINGS.init_ms)
    assert leader.role.over == "no quorum in synchronization"


def test_learner_that_works_off_a_backlog_is_not_dropped() -> None:
    leader = established(1, 2)
    zxids = [leader.propose(str(number)) for number in range(8)]
    for step, zxid in enumerate(zxids[:-1], 1):
        now = step * (SETTINGS.sync_ms - 1)
        leader.hear(1, Ack(zxid), now=now)
        leader.hear(2, Ack(zxids[-1]), now=now)
        leader.role.tick(now)
        leader.drain()
    assert leader.links == []
    now += SETTINGS.sync_ms + SETTINGS.tick_ms
    leader.hear(1, Pong(0), now=now)
    at(leader, now)
    assert leader.links == [HangUp(ServerId(1), dialled=False)]


@pytest.mark.parametrize(("last", "count"), [(make(1, 4), "3"), (make(2, 3), "3 or more")])
def test_truncation_of_a_learner_is_a_warning_with_from_to_and_count(last: Zxid, count: str) -> None:
    leader = LeaderFixture(txn(1, 1), txn(3, 1), current=3, accepted=3)
    for sid in (1, 2):
        leader.greet(sid, accepted=3)
    leader.save()
    leader.promise(1, make(3, 1), epoch=3)
    leader.save()
    leader.promise(2, last, epoch=2)
    (note,) = [note for note in leader.notes if note.event == "asks_to_truncate"]
    said = dict(note.fields)
    assert note.level == "warning"
    assert (said["peer"], said["from"], said["to"], said["count"]) == (2, show(last), "1/1", count)


def test_survivor_of_a_newer_epoch_that_is_overruled_is_a_warning() -> None:
    leader = established(2)
    leader.greet(1)
    leader.promise(1, make(1, 0), epoch=1)
    assert [note for note in leader.notes if note.event == "overrules"] == [], "of the same epoch"
    leader = established(2)
    leader.role.link_up(ServerId(1), 0)
    leader.hear(1, FollowerInfo(Epoch(2), NOTHING))
    leader.hear(1, AckEpoch(Epoch(5), make(5, 500), 0))
    (note,) = [note for note in leader.notes if note.event == "overrules"]
    said = dict(note.fields)
    assert (note.level, said["peer"], said["theirs"], said["mine"]) == ("warning", 1, "5:5/500", "1:0/0")


def vetoed(leader: LeaderFixture, sid: int) -> list[object]:
    return leader.hear(sid, Veto(ServerId(3), Epoch(2), NOTHING, make(1, 500), make(1, 503), 503))


def test_established_leader_that_is_vetoed_warns_and_goes_on_without_that_learner() -> None:
    leader = established(2)
    leader.greet(1, accepted=2)
    leader.promise(1, make(1, 503), epoch=1, counts=False)
    vetoed(leader, 1)
    (note,) = [note for note in leader.notes if note.event == "vetoed"]
    said = dict(note.fields)
    assert note.level == "warning"
    assert [said[name] for name in ("peer", "common", "committed", "last", "count")] == [
        1,
        "0/0",
        "1/500",
        "1/503",
        503,
    ]
    assert leader.role.over is None
    assert set(leader.role.learners) == {2}
    assert leader.propose("goes on") == make(2, 1)


@pytest.mark.parametrize("sid", [1, 4], ids=["a voter's", "an observer's"])
def test_veto_of_a_voter_ends_a_leader_that_is_not_established(sid: int) -> None:
    leader = LeaderFixture(*(txn(1, counter) for counter in range(1, 6)), ensemble=members(1, 2, 3, observers=(4,)))
    for each in {2, sid}:
        leader.greet(each, observer=each == 4)
    leader.save()
    for each in {2, sid}:
        leader.promise(each, make(1, 3))
    leader.save()
    assert leader.phase_name == "SYNCHRONIZATION"
    vetoed(leader, sid)
    assert (leader.role.over is None) is (sid == 4)
    assert leader.role.over in (None, "server 1 vetoes this history: 1/500 was committed there")


@pytest.mark.parametrize("epochs", [(5, 5), (2, 1), (2, 2)], ids=["newer", "of the same number", "and adopted"])
def test_unestablished_leader_gives_up_if_a_learner_has_more_history(
    epochs: tuple[int, int],
) -> None:
    """Setting: two servers lost their disks, and the third one has promised an epoch of the same number before."""
    accepted, current = epochs
    for phase in ("DISCOVERY", "SYNCHRONIZATION"):
        leader = LeaderFixture(accepted=1, current=0)
        leader.greet(2)
        leader.save()
        if phase == "SYNCHRONIZATION":
            leader.promise(2, epoch=0)
        leader.greet(1, accepted=accepted)
        if leader.role.over is None:
            assert leader.phase_name == phase
            leader.promise(1, make(current, 500), epoch=current, counts=False)
        assert leader.role.over is not None
        assert leader.role.over.startswith("server 1 has ")


def test_transactions_of_this_epoch_that_another_leader_gave_are_not_shared_with_this_one() -> None:
    leader = established(2)
    leader.propose("one", "two", "three")
    leader.greet(1, accepted=2)
    sent = leader.promise(1, make(2, 2), epoch=2, counts=False)
    assert isinstance(sent[0], Trunc)
    assert sent[0].common == NOTHING, "for all their numbers"
    vetoed(leader, 1)
    leader.greet(1, accepted=2)
    (again, *_) = leader.promise(1, make(2, 2), epoch=2, counts=False)
    assert isinstance(again, Trunc), "nor when it comes again"
    leader = established(1, 2)
    leader.propose("one", "two", "three")
    leader.greet(1, accepted=2)
    sent = leader.promise(1, make(2, 2), epoch=2, counts=False)
    assert sent[0] == Diff(make(2, 2), leader.digest(make(2, 2))), "it has them from this leader"
