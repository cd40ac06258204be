"""The learner, step by step: its messages, and the data that must be durable before them."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from zab.core.batch import Batch, pack
from zab.core.ensemble import Ensemble, Server
from zab.core.errors import RemoteProtocolError
from zab.core.learner.learner import DIAL_ATTEMPTS, Learner
from zab.core.log_state import LogState
from zab.core.messages import (
    ALIVE,
    RESUMES,
    Ack,
    AckEpoch,
    AckNewLeader,
    BarrierReply,
    BarrierRequest,
    Commit,
    CommitAndActivate,
    Diff,
    FollowerInfo,
    LeaderInfo,
    NewLeader,
    Ping,
    Pong,
    Propose,
    SnapBegin,
    SnapChunk,
    SnapEnd,
    SnapHeld,
    SnapResume,
    Trunc,
    UpToDate,
    Veto,
)
from zab.core.ready import (
    AbortSnapshot,
    Append,
    BarrierDone,
    Dial,
    HangUp,
    InstallSnapshot,
    KeepSnapshot,
    Note,
    Recovered,
    ResumeSnapshot,
    SaveEpochs,
    Settings,
    Truncate,
    with_zookeeper_peers,
)
from zab.core.zxid import NOTHING, Epoch, ServerId, Zxid, counter_of, make

ME, LEADER = ServerId(1), ServerId(3)
SETTINGS = Settings(tick_ms=100, init_limit=10, sync_limit=5, dial_retry_ms=7)


def members(*voters: int, version: Zxid = NOTHING) -> Ensemble:
    return Ensemble(tuple(Server(ServerId(sid), f"host{sid}", 2888, 3888) for sid in voters), version)


def txn(epoch: int, counter: int, text: str = "x") -> Batch:
    return pack(make(epoch, counter), [text.encode()])


class Follower:
    """One attempt to follow server 3, with a disk that reports only on command."""

    def __init__(
        self,
        *batches: Batch,
        accepted: int = 1,
        current: int = 1,
        settings: Settings = SETTINGS,
        **recovered: bool | int | Zxid | SnapHeld | Ensemble | None,
    ) -> None:
        disk = Recovered(Epoch(accepted), Epoch(current), batches=batches, **recovered)  # type: ignore[arg-type]
        self.log_state = LogState(ME, members(1, 2, 3), disk, settings)
        self.role = Learner(self.log_state, LEADER, 0, observer=False)
        self.waiting: list[int] = []
        self.links: list[Dial | HangUp] = []
        self.barriers: list[BarrierDone] = []
        self.writes: list[object] = []
        self.said: list[object] = []
        self.notes: list[Note] = []
        self._drain()

    def _drain(self) -> None:
        self.role.flush()
        ready = self.log_state.out.drain()
        self.waiting += [write.ticket for write in ready.save]
        self.writes += ready.save
        self.links += ready.links
        self.barriers += ready.barriers
        self.notes += ready.notes
        self.said += [envelope.message for envelope in ready.send]

    def hear(self, *messages: object, now: int = 0) -> list[object]:
        """Handle a message, and return the replies before any save."""
        self.said = []
        for message in messages:
            self.role.handle(LEADER, message, now)
            self._drain()
        return self.said

    def save(self) -> list[object]:
        """Save everything, and return the messages that follow."""
        self.said = []
        if self.waiting:
            self.role.saved(self.waiting[-1], self.log_state.saved(self.waiting[-1]))
            self.waiting.clear()
        self._drain()
        return self.said

    def link_up(self) -> list[object]:
        self.said = []
        self.role.link_up(0)
        self._drain()
        return self.said

    def synchronized(self, *batches: Batch, common: Zxid | None = None) -> Follower:
        """Up to the point where NEWLEADER is durable and acknowledged."""
        self.link_up()
        self.hear(LeaderInfo(Epoch(2)))
        self.save()
        self.hear(Diff(self.log_state.history.last if common is None else common), *map(Propose, batches))
        self.hear(NewLeader(Epoch(2), members(1, 2, 3)))
        self.save()
        return self


def broadcasting(*batches: Batch) -> Follower:
    follower = Follower(*batches).synchronized()
    follower.hear(UpToDate(follower.log_state.history.last))
    follower.save()
    assert follower.role.serving
    return follower


# -- the order of acts -------------------------------------------------------------------------------------------


def test_no_message_precedes_its_durable_state_from_link_to_broadcast() -> None:
    follower = Follower(txn(1, 1))
    assert follower.links == [Dial(LEADER)]
    assert follower.link_up() == [FollowerInfo(Epoch(1), NOTHING)]

    assert follower.hear(LeaderInfo(Epoch(2))) == []
    (ack,) = follower.save()
    assert isinstance(ack, AckEpoch)
    assert (ack.current_epoch, ack.last, ack.counts, ack.forgotten) == (1, make(1, 1), True, False)

    assert follower.hear(Diff(make(1, 1)), Propose(txn(1, 2)), NewLeader(Epoch(2), members(1, 2, 3))) == []
    kinds = [type(write).__name__ for write in follower.writes]
    assert kinds == ["SaveEpochs", "Append", "SaveEpochs"], "history first, then the epoch"
    assert follower.save() == [AckNewLeader(Epoch(2))], "which is an acknowledgement of the history, too"

    before = follower.role.serving
    follower.hear(UpToDate(make(1, 2)))
    assert (before, follower.role.serving, follower.log_state.applied) == (False, True, make(1, 2))


def test_the_epoch_is_acknowledged_when_its_own_save_is_durable_and_not_one_before_it() -> None:
    follower = Follower()
    follower.link_up()
    follower.hear(LeaderInfo(Epoch(2)))
    follower.save()
    follower.hear(Diff(NOTHING), Propose(txn(1, 1)), NewLeader(Epoch(2), members(1, 2, 3)))
    history, epoch = follower.waiting
    follower.role.saved(history, follower.log_state.saved(history))
    follower._drain()
    assert AckNewLeader(Epoch(2)) not in follower.said
    follower.role.saved(epoch, follower.log_state.saved(epoch))
    follower._drain()
    assert follower.said == [AckNewLeader(Epoch(2))]


def test_proposals_after_newleader_are_acknowledged_after_it() -> None:
    follower = Follower()
    follower.link_up()
    follower.hear(LeaderInfo(Epoch(2)))
    follower.save()
    follower.hear(Diff(NOTHING), NewLeader(Epoch(2), members(1, 2, 3)))
    assert follower.hear(Propose(txn(2, 1)), Commit(make(2, 1))) == []
    assert follower.save() == [AckNewLeader(Epoch(2)), Ack(make(2, 1))]
    assert follower.log_state.applied == NOTHING, "it is true that it is committed, but not yet for me to act upon"
    follower.hear(UpToDate(NOTHING))
    assert follower.log_state.applied == make(2, 1)


def test_one_fsync_yields_one_ack() -> None:
    follower = broadcasting()
    assert follower.hear(Propose(txn(2, 1)), Propose(txn(2, 2)), Propose(txn(2, 3))) == []
    assert follower.save() == [Ack(make(2, 3))]
    assert follower.save() == []


def test_a_snapshot_is_nothing_before_newleader_and_then_all() -> None:
    follower = Follower(txn(1, 1))
    follower.link_up()
    follower.hear(LeaderInfo(Epoch(2)))
    follower.save()
    follower.writes.clear()
    in_force = members(1, 2, 4, version=make(1, 5))
    follower.hear(SnapBegin(make(1, 7), 5), SnapChunk(b"a"), SnapChunk(b"b"), SnapEnd(), Propose(txn(1, 8)))
    assert follower.log_state.history.last == make(1, 1)
    follower.hear(NewLeader(Epoch(2), in_force))
    assert follower.log_state.history.last == make(1, 8)
    kinds = [type(write).__name__ for write in follower.writes]
    assert kinds == [
        *("BeginSnapshot", "SnapshotChunk", "SnapshotChunk"),
        *("SaveEpochs", "InstallSnapshot", "Append", "SaveEpochs"),
    ], "the membership in force first: the snapshot hides how it came to be"
    saves = [write for write in follower.writes if isinstance(write, SaveEpochs)]
    assert [(save.ensemble.version, save.current) for save in saves] == [(make(1, 5), 1), (make(1, 5), 2)]
    assert follower.save() == [AckNewLeader(Epoch(2))]


def test_a_snapshot_that_breaks_off_has_no_effect_and_is_kept() -> None:
    follower = Follower(txn(1, 1))
    follower.link_up()
    follower.hear(LeaderInfo(Epoch(2)))
    follower.save()
    follower.hear(SnapBegin(make(1, 7), 5), SnapChunk(b"a"), SnapEnd(), Propose(txn(1, 8)))
    follower.role.link_down(0)
    assert follower.role.over
    follower.role.leave()
    follower._drain()
    assert isinstance(follower.writes[-1], KeepSnapshot)
    assert follower.log_state.history.last == make(1, 1)


# -- the rest of a snapshot ------------------------------------------------------------------------------------------

HELD = SnapHeld(make(1, 7), 500, b"sum of 16 bytes.")
DIGEST = 5


def holding(*batches: Batch) -> Follower:
    """Return a learner with part of a snapshot, and a leader that can send the rest."""
    follower = Follower(*batches, held=HELD)
    assert follower.link_up() == [ALIVE, FollowerInfo(Epoch(1), NOTHING)]
    follower.hear(RESUMES, LeaderInfo(Epoch(2)))
    return follower


def kinds_of(writes: list[object]) -> list[str]:
    return [type(write).__name__ for write in writes]


def test_partial_snapshot_is_offered_before_ack_epoch_and_resumed() -> None:
    follower = holding()
    offered, ack = follower.save()
    assert offered == HELD
    assert isinstance(ack, AckEpoch)
    follower.writes.clear()
    follower.hear(SnapResume(make(1, 7), DIGEST, 500, 900), SnapChunk(b"rest"), SnapEnd())
    assert isinstance(follower.writes[0], ResumeSnapshot)
    assert follower.writes[0].held == HELD
    assert follower.log_state.history.last == NOTHING
    follower.hear(NewLeader(Epoch(2), members(1, 2, 3)))
    assert kinds_of(follower.writes) == ["ResumeSnapshot", "SnapshotChunk", "InstallSnapshot", "SaveEpochs"]
    assert (follower.log_state.history.last, follower.log_state.history.digest_at(make(1, 7))) == (make(1, 7), DIGEST)


def test_leader_of_an_earlier_version_is_offered_nothing() -> None:
    """Such a leader does not announce support, and would cut the link at an unknown message."""
    follower = Follower(held=HELD)
    follower.link_up()
    follower.hear(LeaderInfo(Epoch(2)))
    (ack,) = follower.save()
    assert isinstance(ack, AckEpoch)
    follower.writes.clear()
    follower.hear(SnapBegin(make(1, 9), 7), SnapChunk(b"all"), SnapEnd(), NewLeader(Epoch(2), members(1, 2, 3)))
    assert kinds_of(follower.writes)[0] == "BeginSnapshot"


def test_learner_without_a_partial_snapshot_sends_the_earlier_messages() -> None:
    assert Follower().link_up() == [FollowerInfo(Epoch(1), NOTHING)]


def test_partial_snapshot_is_deleted_after_another_synchronization() -> None:
    follower = holding(txn(1, 1))
    follower.save()
    follower.writes.clear()
    follower.hear(Diff(make(1, 1)), NewLeader(Epoch(2), members(1, 2, 3)))
    assert kinds_of(follower.writes) == ["AbortSnapshot", "SaveEpochs"]
    assert not follower.log_state.partial.is_held


def test_partial_snapshot_survives_an_interrupted_diff() -> None:
    follower = holding(txn(1, 1))
    follower.save()
    follower.hear(Diff(make(1, 1)))
    follower.role.link_down(0)
    follower.role.leave()
    follower._drain()
    assert follower.log_state.partial.is_held
    assert not any(isinstance(write, AbortSnapshot) for write in follower.writes)


@pytest.mark.parametrize(
    "rest",
    [
        SnapResume(make(1, 8), DIGEST, 500, 900),
        SnapResume(make(1, 7), DIGEST, 499, 900),
    ],
)
def test_the_rest_of_something_else_is_refused(rest: SnapResume) -> None:
    follower = holding()
    follower.save()
    with pytest.raises(RemoteProtocolError, match="holds no such part"):
        follower.hear(rest)


def test_the_rest_is_refused_where_nothing_was_offered() -> None:
    follower = Follower(held=HELD)
    follower.link_up()
    follower.hear(LeaderInfo(Epoch(2)))
    follower.save()
    with pytest.raises(RemoteProtocolError, match="holds no such part"):
        follower.hear(SnapResume(HELD.zxid, DIGEST, HELD.size, 900))


def test_a_second_rest_on_one_link_is_refused() -> None:
    follower = holding()
    follower.save()
    rest = SnapResume(HELD.zxid, DIGEST, HELD.size, 900)
    follower.hear(rest, SnapEnd())
    with pytest.raises(RemoteProtocolError, match="a second snapshot in one synchronization"):
        follower.hear(rest)


def test_a_membership_is_known_to_be_in_force_before_anything_behind_it_is_acknowledged() -> None:
    follower = Follower()
    follower.link_up()
    follower.hear(LeaderInfo(Epoch(2)))
    follower.save()
    follower.hear(Diff(NOTHING), NewLeader(Epoch(2), members(1, 2, 3)))
    change = members(1, 2, 3, 4, version=make(2, 1))
    follower.hear(Propose(pack(change.version, [change.text().encode()], config=True)))
    follower.writes.clear()
    follower.hear(CommitAndActivate(make(2, 1), LEADER), Propose(txn(2, 2)))
    assert [type(write).__name__ for write in follower.writes] == ["SaveEpochs", "Append"]
    assert follower.log_state.ensemble.version == make(2, 1)


def test_a_first_membership_is_not_in_force_before_its_epoch_is() -> None:
    follower = Follower()
    follower.link_up()
    follower.hear(LeaderInfo(Epoch(2)))
    follower.save()
    follower.hear(Diff(NOTHING), NewLeader(Epoch(2), members(1, 2, 3, version=make(2, 0))))
    follower.save()
    assert follower.log_state.ensemble.version == NOTHING
    follower.hear(UpToDate(NOTHING))
    assert follower.log_state.ensemble.version == make(2, 0)


# -- promises ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("accepted", "counts"), [(1, True), (2, False)], ids=["new", "given before"])
def test_a_promise_counts_when_it_is_new(accepted: int, counts: bool) -> None:
    follower = Follower(accepted=accepted)
    follower.link_up()
    follower.hear(LeaderInfo(Epoch(2)))
    (ack,) = follower.save()
    assert isinstance(ack, AckEpoch)
    assert ack.counts is counts


def test_a_promise_is_not_taken_back() -> None:
    follower = Follower(accepted=5)
    follower.link_up()
    assert follower.hear(LeaderInfo(Epoch(4))) == []
    assert follower.role.over == "leader 3 proposes epoch 4; epoch 5 was promised already"
    assert follower.log_state.accepted == 5


def test_server_with_lost_promises_reports_it() -> None:
    follower = Follower(forgotten=True)
    follower.link_up()
    follower.hear(LeaderInfo(Epoch(2)))
    (ack,) = follower.save()
    assert isinstance(ack, AckEpoch)
    assert (ack.forgotten, ack.counts) == (True, False)


# -- the point in common -----------------------------------------------------------------------------------------


def test_trunc_to_the_beginning_of_an_epoch_means_the_last_transaction_before() -> None:
    """A leader of ZooKeeper whose history begins with a snapshot at 2/0 names no other zxid."""
    follower = Follower(txn(1, 1), txn(1, 2), txn(2, 1), accepted=2, current=2)
    follower.link_up()
    follower.hear(LeaderInfo(Epoch(3)))
    follower.save()
    follower.hear(Trunc(make(2, 0)), Propose(txn(3, 1)), NewLeader(Epoch(3), members(1, 2, 3)))
    assert [each.zxid for each in follower.writes if isinstance(each, Truncate)] == [make(1, 2)]
    assert follower.save() == [AckNewLeader(Epoch(3))]
    assert [batch.first for batch in follower.log_state.history.after(NOTHING)] == [make(1, 1), make(1, 2), make(3, 1)]


def test_trunc_to_the_beginning_of_the_first_epoch_leaves_nothing() -> None:
    follower = Follower(txn(2, 1), accepted=2, current=2)
    follower.link_up()
    follower.hear(LeaderInfo(Epoch(3)))
    follower.save()
    follower.hear(Trunc(make(2, 0)), NewLeader(Epoch(3), members(1, 2, 3)))
    assert [each.zxid for each in follower.writes if isinstance(each, Truncate)] == [NOTHING]
    assert follower.save() == [AckNewLeader(Epoch(3))]


def test_a_history_that_begins_with_an_epoch_is_cut_there() -> None:
    follower = Follower(txn(2, 1), accepted=2, current=2, snapshot=make(2, 0), log_start=make(2, 0))
    follower.link_up()
    follower.hear(LeaderInfo(Epoch(3)))
    follower.save()
    follower.hear(Trunc(make(2, 0)), Propose(txn(3, 1)), NewLeader(Epoch(3), members(1, 2, 3)))
    assert [each.zxid for each in follower.writes if isinstance(each, Truncate)] == [make(2, 0)]
    assert follower.save() == [AckNewLeader(Epoch(3))]


def test_trunc_to_the_beginning_of_an_epoch_spares_what_was_committed() -> None:
    follower = Follower(txn(1, 1), txn(2, 1), accepted=2, current=2, committed=make(2, 1))
    follower.link_up()
    follower.hear(LeaderInfo(Epoch(3)))
    follower.save()
    assert follower.hear(Trunc(make(2, 0))) == [Veto(LEADER, Epoch(3), make(1, 1), make(2, 1), make(2, 1), 1)]


@pytest.mark.parametrize(("mine", "theirs"), [(None, 5), (7, None), (None, None)])
def test_a_digest_that_one_side_does_not_know_is_not_compared(mine: int | None, theirs: int | None) -> None:
    follower = Follower(snapshot=make(1, 1), log_start=make(1, 1), digest=mine)
    follower.link_up()
    follower.hear(LeaderInfo(Epoch(2)))
    assert follower.save() == [AckEpoch(Epoch(1), make(1, 1), mine)]
    follower.hear(Diff(make(1, 1), theirs), Propose(txn(1, 2)), NewLeader(Epoch(2), members(1, 2, 3)))
    assert follower.role.over is None
    assert follower.save() == [AckNewLeader(Epoch(2))]


def test_a_snapshot_without_a_digest_begins_a_history_without_digests() -> None:
    follower = Follower(txn(1, 1))
    follower.link_up()
    follower.hear(LeaderInfo(Epoch(2)))
    follower.save()
    follower.hear(SnapBegin(make(1, 7), None), SnapChunk(b"state"), SnapEnd(), NewLeader(Epoch(2), members(1, 2, 3)))
    assert [each.digest for each in follower.writes if isinstance(each, InstallSnapshot)] == [None]
    assert follower.log_state.history.digest_at(make(1, 7)) is None


@pytest.mark.parametrize("message", [Diff(make(1, 2), 99), Trunc(make(1, 1), 99)], ids=["diff", "trunc"])
def test_a_digest_that_differs_costs_the_history_its_trust(message: Diff | Trunc) -> None:
    follower = Follower(txn(1, 1), txn(1, 2))
    follower.link_up()
    follower.hear(LeaderInfo(Epoch(2)))
    follower.save()
    follower.hear(message)
    assert follower.role.over == "the histories of this server and the leader have diverged"
    assert not follower.log_state.voting
    assert follower.log_state.history.last == make(1, 2), "nothing was cut on the word of somebody who differs"


def test_history_committed_here_is_not_truncated() -> None:
    follower = broadcasting(txn(1, 1), txn(1, 2))
    again = Learner(follower.log_state, LEADER, 0, observer=False)
    follower.role = again
    follower.link_up()
    follower.hear(LeaderInfo(Epoch(3)))
    follower.save()
    assert follower.hear(Trunc(make(1, 1))) == [Veto(LEADER, Epoch(3), make(1, 1), make(1, 2), make(1, 2), 1)]
    assert again.over == "asked to truncate committed transactions"
    assert (follower.log_state.voting, follower.log_state.history.last) == (True, make(1, 2))


# -- rules broken ------------------------------------------------------------------------------------------------

IN_SYNCHRONIZATION: list[list[object]] = [
    [LeaderInfo(Epoch(2))],
    [UpToDate(NOTHING)],
    [NewLeader(Epoch(3), members(1, 2, 3))],
    [SnapBegin(make(1, 5), 0), NewLeader(Epoch(2), members(1, 2, 3))],
    [SnapBegin(make(1, 5), 0), SnapBegin(make(1, 5), 0)],
    [SnapBegin(make(1, 5), 0), SnapEnd(), SnapBegin(make(1, 5), 0)],
    [SnapBegin(make(1, 5), 0), Propose(txn(1, 6))],
    [SnapBegin(make(1, 5), 0), SnapEnd(), Propose(txn(1, 7)), NewLeader(Epoch(2), members(1, 2, 3))],
    [SnapChunk(b"")],
    [SnapEnd()],
    [Diff(make(1, 1))],
    [Diff(NOTHING), Propose(txn(1, 2))],
    [Diff(NOTHING), NewLeader(Epoch(2), members(1, 2, 3)), NewLeader(Epoch(2), members(1, 2, 3))],
    [Diff(NOTHING), NewLeader(Epoch(2), members(1, 2, 3)), Diff(NOTHING)],
    [Diff(NOTHING), NewLeader(Epoch(2), members(1, 2, 3)), UpToDate(NOTHING)],
    [Commit(make(1, 1))],
]


@pytest.mark.parametrize(
    "messages", IN_SYNCHRONIZATION, ids=lambda messages: "-".join(type(each).__name__ for each in messages)
)
def test_messages_forbidden_in_synchronization(messages: list[object]) -> None:
    follower = Follower()
    follower.link_up()
    follower.hear(LeaderInfo(Epoch(2)))
    follower.save()
    follower.hear(*messages[:-1])
    with pytest.raises(RemoteProtocolError):
        follower.hear(messages[-1])


@pytest.mark.parametrize(
    "message",
    [Diff(NOTHING), Trunc(NOTHING), SnapBegin(make(1, 1), 0), NewLeader(Epoch(1), members(1)), UpToDate(NOTHING)],
    ids=lambda message: type(message).__name__,
)
def test_messages_forbidden_in_discovery(message: object) -> None:
    follower = Follower()
    follower.link_up()
    with pytest.raises(RemoteProtocolError):
        follower.hear(message)
    with pytest.raises(RemoteProtocolError):
        follower.hear(Propose(txn(1, 1)))


def test_messages_from_other_servers_or_before_the_link_are_ignored() -> None:
    follower = Follower()
    follower.role.handle(LEADER, LeaderInfo(Epoch(2)), 0)
    assert follower.log_state.accepted == 1
    follower.link_up()
    follower.role.handle(ServerId(2), LeaderInfo(Epoch(2)), 0)
    assert follower.log_state.accepted == 1


# -- links and time ----------------------------------------------------------------------------------------------


def test_a_leader_that_does_not_know_yet_is_dialled_again() -> None:
    follower = Follower()
    for attempt in range(1, DIAL_ATTEMPTS):
        assert follower.links == [Dial(LEADER)] * attempt
        follower.role.link_down(attempt * 100)
        assert follower.role.deadline == attempt * 100 + SETTINGS.dial_retry_ms
        follower.role.tick(follower.role.deadline)
        follower._drain()
    assert follower.role.over is None
    follower.role.link_down(1_000)
    assert follower.role.over == "link to leader 3 lost in dialling, after 5 attempts"


def test_a_leader_that_listens_late_is_dialled_until_init_limit() -> None:
    settings = evolve(SETTINGS, dial_for_init_limit=True)
    follower = Follower(settings=settings)
    now = 0
    while follower.role.over is None:
        follower.role.link_down(now)
        if follower.role.over is None:
            now = follower.role.deadline
            follower.role.tick(now)
            follower._drain()
    assert now == settings.init_ms
    assert follower.role.over == "nothing from leader 3 in dialling for 1000 ms"
    assert follower.links.count(Dial(LEADER)) > settings.init_ms // settings.dial_retry_ms


def test_a_leader_that_hangs_up_is_dialled_until_init_limit_and_no_longer() -> None:
    """Each link restarts the limit of the leader's silence, but not that of dialling."""
    follower = Follower(settings=evolve(SETTINGS, dial_for_init_limit=True))
    follower.role.link_up(900)
    follower.role.link_down(999)
    assert follower.role.over is None
    follower.role.tick(1_006)
    follower.role.link_up(1_006)
    for _ in range(DIAL_ATTEMPTS):
        if follower.role.over is None:
            follower.role.link_down(1_007)
            follower.role.tick(1_014)
    assert follower.role.over == "link to leader 3 lost in dialling, after 5 attempts"


def test_a_link_that_breaks_behind_a_promise_ends_the_attempt() -> None:
    follower = Follower()
    follower.link_up()
    follower.hear(LeaderInfo(Epoch(2)))
    follower.role.link_down(0)
    assert follower.role.over == "link to leader 3 lost in discovery"


def test_a_silent_leader_is_left() -> None:
    follower = Follower()
    assert follower.role.deadline == SETTINGS.init_ms
    follower.synchronized()
    follower.hear(UpToDate(NOTHING), now=100)
    assert follower.hear(Ping(4, NOTHING), now=300) == [Pong(4)]
    assert follower.role.deadline == 300 + SETTINGS.sync_ms
    follower.role.tick(299 + SETTINGS.sync_ms)
    assert follower.role.over is None
    follower.role.tick(300 + SETTINGS.sync_ms)
    assert follower.role.over == f"nothing from leader 3 in broadcast for {SETTINGS.sync_ms} ms"


def test_leaving_learner_cuts_its_link() -> None:
    follower = Follower()
    follower.link_up()
    follower.role.leave()
    follower._drain()
    assert follower.links == [Dial(LEADER), HangUp(LEADER, dialled=True)]


# -- a snapshot that is older than the history -------------------------------------------------------------------


def snapshot_before(*behind: Batch, follower: Follower, zxid: Zxid, digest: int | None = None) -> list[object]:
    """Send a snapshot and the transactions after it, up to NEWLEADER. Return the writes."""
    follower.link_up()
    follower.hear(LeaderInfo(Epoch(3)))
    follower.save()
    follower.writes.clear()
    follower.hear(SnapBegin(zxid, digest), SnapChunk(b"state"), SnapEnd(), *map(Propose, behind))
    follower.hear(NewLeader(Epoch(3), members(1, 2, 3)))
    return [each for each in follower.writes if isinstance(each, Truncate | InstallSnapshot | Append | AbortSnapshot)]


KEEPS = evolve(SETTINGS, diff_after_trunc=False)
OWN = (txn(1, 1), txn(1, 2), txn(1, 3))


def test_a_snapshot_before_common_transactions_does_not_replace_them() -> None:
    """A crash before the rest is logged would lose 1/2, which this server may have acknowledged to a former leader."""
    follower = Follower(*OWN, settings=KEEPS)
    writes = snapshot_before(txn(1, 2), txn(2, 1), follower=follower, zxid=make(1, 1))
    assert [type(each) for each in writes] == [AbortSnapshot, Truncate, Append]
    assert [batch.first for batch in follower.log_state.history.after(NOTHING)] == [make(1, 1), make(1, 2), make(2, 1)]
    assert follower.save() == [AckNewLeader(Epoch(3))]


def test_a_snapshot_before_the_log_does_not_replace_it_either() -> None:
    begins = make(1, 2)
    follower = Follower(txn(1, 3), txn(1, 4), settings=KEEPS, snapshot=begins, log_start=begins)
    behind = (pack(make(1, 1), [b"x"] * 2), txn(1, 3), txn(2, 1))
    writes = snapshot_before(*behind, follower=follower, zxid=NOTHING)
    assert [type(each) for each in writes] == [AbortSnapshot, Truncate, Append]
    assert [batch.first for batch in follower.log_state.history.after(begins)] == [make(1, 3), make(2, 1)]


def test_a_batch_of_the_leader_is_split_at_the_newest_common_transaction() -> None:
    follower = Follower(pack(make(1, 1), [b"x"] * 3), settings=KEEPS)
    snapshot_before(pack(make(1, 2), [b"x"] * 4), follower=follower, zxid=make(1, 1))
    assert [batch.first for batch in follower.log_state.history.after(NOTHING)] == [make(1, 1), make(1, 4)]


@pytest.mark.parametrize(
    ("zxid", "digest", "settings", "more"),
    [
        (make(1, 3), None, KEEPS, {}),
        (make(1, 1), 99, KEEPS, {}),
        (make(1, 1), None, KEEPS, {"voting": False}),
        (make(1, 1), None, SETTINGS, {}),
    ],
    ids=["it is not older", "it is of another history", "this history may be incomplete", "TRUNC is sent instead"],
)
def test_any_other_snapshot_replaces_the_history(
    zxid: Zxid, digest: int | None, settings: Settings, more: dict[str, bool]
) -> None:
    follower = Follower(*OWN, settings=settings, **more)
    writes = snapshot_before(txn(2, 1), follower=follower, zxid=zxid, digest=digest)
    assert [type(each) for each in writes] == [InstallSnapshot, Append]
    assert follower.log_state.history.base == zxid


def test_an_older_snapshot_does_not_cut_committed_transactions() -> None:
    follower = Follower(*OWN, settings=KEEPS, committed=make(1, 3))
    snapshot_before(txn(1, 2), txn(2, 1), follower=follower, zxid=make(1, 1))
    assert follower.said == [Veto(LEADER, Epoch(3), make(1, 2), make(1, 3), make(1, 3), 1)]


# -- memberships without versions --------------------------------------------------------------------------------


def test_a_first_version_is_not_taken_where_memberships_have_none() -> None:
    """A leader of ZooKeeper gives the membership a version also without `reconfigEnabled`."""
    follower = Follower(settings=evolve(SETTINGS, membership_versions=False))
    follower.link_up()
    follower.hear(LeaderInfo(Epoch(2)))
    follower.save()
    follower.hear(Diff(NOTHING), NewLeader(Epoch(2), members(1, 2, 3, version=make(2, 0))))
    assert follower.save() == [AckNewLeader(Epoch(2))]
    follower.hear(UpToDate(NOTHING))
    assert follower.role.serving
    assert follower.log_state.ensemble.version == NOTHING


# -- changes of the membership under a leader of ZooKeeper --------------------------------------------------------

ZOOKEEPER = with_zookeeper_peers(SETTINGS, reconfig_enabled=True)
CHANGE = members(1, 2, 3, 4, version=make(1, 1))


def change_batch(change: Ensemble) -> Batch:
    return pack(change.version, [change.text().encode()], config=True)


def adopting(*messages: object) -> Follower:
    """Adopt epoch 2 after these messages, which end with NEWLEADER."""
    follower = Follower(settings=ZOOKEEPER)
    follower.link_up()
    follower.hear(LeaderInfo(Epoch(2)))
    follower.save()
    follower.hear(*messages)
    assert follower.save() == [AckNewLeader(Epoch(2))]
    return follower


@pytest.mark.parametrize("committed", [NOTHING, make(1, 1)])
def test_change_in_newleader_is_in_force_once_it_is_decided(committed: Zxid) -> None:
    """ZooKeeper's leader names the last change of its log. It is decided if UPTODATE or a commit says so."""
    follower = adopting(Diff(NOTHING), Propose(change_batch(CHANGE)), NewLeader(Epoch(2), CHANGE))
    log_state = follower.log_state
    assert (log_state.ensemble.version, log_state.pending) == (NOTHING, CHANGE)
    follower.hear(UpToDate(committed))
    assert log_state.ensemble.version == committed
    follower.hear(CommitAndActivate(make(1, 1), LEADER))
    assert (log_state.ensemble, log_state.pending) == (CHANGE, None)


def test_change_in_newleader_is_in_force_at_once_if_a_snapshot_contains_it() -> None:
    follower = adopting(SnapBegin(make(1, 1), None), SnapEnd(), NewLeader(Epoch(2), CHANGE))
    assert follower.log_state.ensemble == CHANGE


def test_change_after_a_snapshot_is_pending() -> None:
    follower = adopting(
        SnapBegin(make(1, 1), None), SnapEnd(), Propose(change_batch(evolve(CHANGE, version=make(1, 2)))),
        NewLeader(Epoch(2), evolve(CHANGE, version=make(1, 2))),
    )  # fmt: skip
    assert follower.log_state.ensemble.version == NOTHING
    follower.hear(UpToDate(make(1, 2)))
    assert follower.log_state.ensemble.version == make(1, 2)


def test_proposals_before_uptodate_are_acknowledged_with_it() -> None:
    follower = adopting(Diff(NOTHING), NewLeader(Epoch(2), members(1, 2, 3)))
    follower.hear(Propose(txn(2, 1)))
    assert follower.save() == []
    assert follower.hear(UpToDate(NOTHING)) == [Ack(make(2, 1))]
    follower.hear(Propose(txn(2, 2)))
    assert follower.save() == [Ack(make(2, 2))]


@pytest.mark.parametrize("me", [1, 4])
def test_only_a_voter_dials_for_init_limit(me: int) -> None:
    log_state = LogState(ServerId(me), members(1, 2, 3), Recovered(Epoch(1), Epoch(1)), ZOOKEEPER)
    learner = Learner(log_state, LEADER, 0, observer=False)
    for now in range(0, 10 * DIAL_ATTEMPTS, 10):
        learner.link_down(now)
        learner.tick(now + ZOOKEEPER.dial_retry_ms)
    assert (learner.over is None) == (me == 1)


# -- barriers ----------------------------------------------------------------------------------------------------


def test_a_barrier_is_done_when_the_leader_has_answered_and_its_answer_is_applied() -> None:
    follower = broadcasting()
    follower.role.barrier(7)
    follower._drain()
    assert follower.said[-1:] == [BarrierRequest(1)]
    follower.hear(Propose(txn(2, 1)), BarrierReply(1, make(2, 1)))
    follower.save()
    assert follower.barriers == []
    follower.hear(Commit(make(2, 1)))
    assert follower.barriers == [BarrierDone(7, make(2, 1))]


def test_barriers_fail_with_the_role() -> None:
    follower = broadcasting()
    follower.role.barrier(7)
    follower.role.barrier(8)
    follower.role.leave()
    follower._drain()
    assert follower.barriers == [BarrierDone(7, None), BarrierDone(8, None)]


def test_a_barrier_before_uptodate_fails_at_once() -> None:
    follower = Follower().synchronized()
    follower.role.barrier(7)
    follower._drain()
    assert follower.barriers == [BarrierDone(7, None)]


def test_unexpected_barrier_reply_is_ignored() -> None:
    follower = broadcasting()
    follower.hear(BarrierReply(3, make(2, 1)))
    assert follower.barriers == []


# -- synchronizations that take long -----------------------------------------------------------------------------


def receiving() -> Follower:
    follower = Follower()
    follower.link_up()
    follower.hear(LeaderInfo(Epoch(2)))
    follower.save()
    follower.hear(SnapBegin(make(1, 9), 77))
    return follower


def reports(follower: Follower, now: int) -> list[object]:
    follower.said = []
    follower.role.tick(now)
    follower._drain()
    return follower.said


def test_learner_reports_progress_every_half_tick_and_nothing_without_progress() -> None:
    follower = receiving()
    assert reports(follower, 0) == [ALIVE]
    follower.hear(SnapChunk(b"x"), now=10)
    assert reports(follower, 49) == []
    assert reports(follower, 50) == [ALIVE]
    assert reports(follower, 100) == []
    follower.role.progress(LEADER, 1_000, 140)
    assert reports(follower, 150) == [ALIVE], "of a chunk that is not whole yet"
    follower.role.progress(LEADER, 1_000, 190)
    assert reports(follower, 200) == []
    follower.save()
    assert reports(follower, 250) == [ALIVE], "the disk has taken something"


def test_learner_logs_the_progress_of_a_long_synchronization_every_ten_seconds() -> None:
    follower = receiving()
    for second in range(12):
        follower.role.progress(LEADER, 500 * (second + 1), 1_000 * second)
    (note,) = [note for note in follower.log_state.out.notes if note.event == "synchronizing"]
    assert dict(note.fields) == {"leader": LEADER, "bytes": 5_500, "bytes_per_s": 550}


def test_learner_waits_for_a_leader_that_makes_progress_only() -> None:
    follower = receiving()
    for step in range(1, 9):
        now = step * (SETTINGS.init_ms - 1)
        follower.role.progress(LEADER, step * 500, now)
        reports(follower, now)
    assert follower.role.over is None
    reports(follower, now + SETTINGS.init_ms)
    assert follower.role.over == (
        "nothing from leader 3 in synchronization for 1000 ms, the limit of init_limit * tick_ms; "
        "4000 bytes were received in 8992 ms, 444 bytes/s"
    )


def test_pings_are_no_progress_once_only_the_disk_is_waited_for() -> None:
    follower = receiving()
    follower.hear(SnapEnd(), NewLeader(Epoch(2), members(1, 2, 3)))
    reports(follower, 0)
    assert follower.hear(Ping(1, NOTHING), now=100) == [Pong(1)]
    follower.role.progress(LEADER, 1_000, 100)
    assert reports(follower, 100) == []
    assert follower.save() == [AckNewLeader(Epoch(2))]


# -- histories that are cut --------------------------------------------------------------------------------------


LOGGED = (txn(1, 1), txn(1, 2), txn(1, 3))


def asked_to_cut(*, committed: Zxid = NOTHING, settings: Settings = SETTINGS) -> Follower:
    """Return a restarted learner with three transactions on disk and the committed zxid of its epochs record."""
    follower = Follower(*LOGGED, committed=committed, settings=settings)
    follower.link_up()
    follower.hear(LeaderInfo(Epoch(2)))
    follower.save()
    return follower


def noted(follower: Follower, event: str) -> dict[str, object]:
    (note,) = [note for note in follower.notes if note.event == event]
    assert note.level == "warning"
    return dict(note.fields)


def test_truncation_of_durable_transactions_is_a_warning_with_from_to_and_count() -> None:
    follower = asked_to_cut(committed=make(1, 1))
    follower.hear(Trunc(make(1, 1), None))
    said = noted(follower, "truncated")
    assert (said["leader"], said["from"], said["to"], said["count"]) == (3, "1/3", "1/1", 2)
    assert follower.log_state.history.last == make(1, 1)


def test_truncation_below_the_committed_zxid_of_before_a_restart_is_vetoed() -> None:
    follower = asked_to_cut(committed=make(1, 2))
    written = len(follower.writes)
    veto = Veto(LEADER, Epoch(2), make(1, 1), make(1, 2), make(1, 3), 2)
    assert follower.hear(Trunc(make(1, 1), None)) == [veto]
    assert follower.role.over == "asked to truncate committed transactions"
    assert follower.role.veto == veto
    said = noted(follower, "vetoes")
    assert [said[name] for name in ("leader", "common", "committed", "last", "count")] == [3, "1/1", "1/2", "1/3", 2]
    assert "follows no leader that lacks them" in str(said["why"])
    assert follower.log_state.history.last == make(1, 3), "nothing is cut"
    assert follower.log_state.voting, "its history is as good as ever"
    assert follower.writes[written:] == [], "its disk stays as it is"


def test_truncation_down_to_the_committed_zxid_is_obeyed() -> None:
    follower = asked_to_cut(committed=make(1, 2))
    assert follower.hear(Trunc(make(1, 2), None)) == []
    assert (follower.role.veto, follower.log_state.history.last) == (None, make(1, 2))


def test_server_that_is_not_to_veto_gives_its_history_up_at_once() -> None:
    follower = asked_to_cut(committed=make(1, 2), settings=evolve(SETTINGS, veto_lost_history=False))
    assert follower.hear(Trunc(make(1, 1), None)) == []
    assert (follower.role.over, follower.role.veto) == ("asked to truncate committed transactions", None)
    said = noted(follower, "history_given_up")
    assert [said[name] for name in ("leader", "common", "committed", "last", "count")] == [3, "1/1", "1/2", "1/3", 2]
    assert not follower.log_state.whole
    assert follower.log_state.known == NOTHING, "it takes what a leader has"


def test_snapshot_below_the_committed_zxid_of_before_a_restart_is_vetoed() -> None:
    follower = asked_to_cut(committed=make(1, 3))
    said = follower.hear(SnapBegin(make(1, 1), 5), SnapEnd(), Propose(txn(1, 2)), NewLeader(Epoch(2), members(1, 2, 3)))
    assert said == [Veto(LEADER, Epoch(2), make(1, 2), make(1, 3), make(1, 3), 1)]
    assert follower.role.over == "asked to replace committed transactions"
    assert follower.log_state.whole

    follower = asked_to_cut(committed=make(1, 3))
    more = (txn(1, 2), txn(1, 3))
    follower.hear(SnapBegin(make(1, 1), 5), SnapEnd(), *map(Propose, more), NewLeader(Epoch(2), members(1, 2, 3)))
    assert follower.save() == [AckNewLeader(Epoch(2))], "what the leader has behind its snapshot counts"


def changed(version: Zxid, *voters: int) -> Batch:
    return pack(version, [members(*voters, version=version).text().encode()], config=True)


def survivor(*batches: Batch, version: Zxid, **recovered: Any) -> Follower:
    """Return a learner whose epochs record holds a membership of this version, with members 1, 2, 3 and 4."""
    follower = Follower(*batches, ensemble=members(1, 2, 3, 4, version=version), **recovered)
    follower.link_up()
    follower.hear(LeaderInfo(Epoch(2)))
    follower.save()
    return follower


MEMBERSHIP = make(1, 2)
CHANGED = (txn(1, 1), changed(MEMBERSHIP, 1, 2, 3, 4), txn(1, 3))


def test_membership_in_force_is_known_to_be_committed() -> None:
    follower = survivor(*CHANGED, version=MEMBERSHIP)
    assert follower.log_state.known == MEMBERSHIP
    assert follower.hear(Trunc(make(1, 1), None)) == [Veto(LEADER, Epoch(2), make(1, 1), MEMBERSHIP, make(1, 3), 2)]
    assert survivor(txn(1, 1), version=MEMBERSHIP).log_state.known == NOTHING, "its history lacks the change"
    assert survivor(*CHANGED, version=MEMBERSHIP, voting=False).log_state.known == NOTHING


def test_snapshot_of_a_leader_that_lacks_a_membership_in_force_is_vetoed() -> None:
    follower = survivor(*CHANGED, version=MEMBERSHIP)
    said = follower.hear(SnapBegin(make(1, 9), 5), SnapEnd(), NewLeader(Epoch(2), members(1, 2, 3, version=make(1, 0))))
    assert said == [Veto(LEADER, Epoch(2), make(1, 1), MEMBERSHIP, make(1, 3), 2)]


def test_change_that_is_pending_at_the_leader_is_not_lacking() -> None:
    follower = survivor(*CHANGED, version=MEMBERSHIP)
    new = NewLeader(Epoch(2), members(1, 2, 3, version=make(1, 0)))
    follower.hear(SnapBegin(make(1, 1), 5), SnapEnd(), *map(Propose, CHANGED[1:]), new)
    assert follower.save() == [AckNewLeader(Epoch(2))]
    assert follower.log_state.ensemble.version == MEMBERSHIP


@pytest.mark.parametrize("leaders", [make(1, 0), make(1, 1)], ids=["a first version", "a changed one"])
def test_history_given_up_goes_with_its_membership(leaders: Zxid) -> None:
    follower = survivor(*CHANGED, version=MEMBERSHIP, voting=False)
    new = NewLeader(Epoch(2), members(1, 2, 3, version=leaders))
    follower.hear(SnapBegin(make(1, 9), 5), SnapEnd(), new)
    assert follower.save() == [AckNewLeader(Epoch(2))]
    (record, *_) = [write for write in reversed(follower.writes) if isinstance(write, SaveEpochs)]
    assert record.whole
    assert record.ensemble.version == (leaders if counter_of(leaders) else NOTHING), "no restart brings it back"
    follower.hear(UpToDate(make(1, 9)))
    assert follower.log_state.ensemble == members(1, 2, 3, version=leaders)
    assert noted(follower, "membership_dropped")["version"] == "1/2"


def test_other_contents_under_the_same_numbers_are_vetoed_if_anything_was_committed() -> None:
    follower = asked_to_cut(committed=make(1, 1))
    (said,) = follower.hear(Diff(make(1, 3), 12345))
    assert said == Veto(LEADER, Epoch(2), NOTHING, make(1, 1), make(1, 3), 3)
    assert follower.role.over == "the histories of this server and the leader have diverged"
    assert follower.log_state.whole


def test_ack_after_diverging_content_is_revoked() -> None:
    """The leader could not tell the digest where the histories meet, because its memory does not reach back so far."""
    follower = asked_to_cut(committed=make(1, 1))
    follower.hear(Diff(make(1, 3), None), Propose(txn(1, 4)), Propose(txn(2, 1)))
    right = follower.log_state.history.digest_at(make(2, 1))
    assert right is not None
    assert follower.hear(Diff(make(2, 1), right)) == []
    (said,) = follower.hear(Diff(make(2, 1), right ^ 1))
    assert said == Veto(LEADER, Epoch(2), NOTHING, make(1, 1), make(1, 3), 3)
    assert follower.log_state.history.last == make(1, 3)
    assert follower.writes[-1] == Truncate(follower.writes[-1].ticket, make(1, 3))  # type: ignore[attr-defined]
