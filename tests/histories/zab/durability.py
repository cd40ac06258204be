"""Writes that must be durable before a message or a step."""

from __future__ import annotations

from attrs import evolve

from harness.checkers.durability import (
    ActivatedIsDecided,
    AdoptedByQuorum,
    DecidedIsInForce,
    DurableBeforeAck,
    DurableOnQuorum,
    EpochsAscend,
    HistoryBeforeEpoch,
    MembersBeforeSnapshot,
    ReadmittedBySomethingNewer,
)
from harness.members import member
from tests.histories.zab.scenario import ENSEMBLE, FOUR, ONE, THREE, TWO, Scenario, batch, breaks, z
from zab.core.batch import Batch, pack
from zab.core.ensemble import Ensemble, Group
from zab.core.messages import Ack, AckEpoch, AckNewLeader, LeaderInfo, NewLeader, State, UpToDate
from zab.core.ready import Recovered
from zab.core.zxid import NOTHING, Epoch, ServerId, Zxid


@breaks(DurableBeforeAck)
def durable_in_a_replaced_history(s: Scenario, bad: bool) -> None:
    first = s.begins()
    old = s.proposes(THREE, 1, 2)
    s.logs(old, THREE, durably=False)
    s.epochs(2, ONE, TWO)
    s.leads(TWO, 2)
    new = s.proposes(TWO, 2, 1)
    s.logs(new, ONE, TWO)
    s.judge.installed(THREE, new.last)
    s.judge.durable_append(THREE, old)
    s.judge.counts_durable(THREE, old.last if bad else first.last)


@breaks(DurableBeforeAck)
def acknowledged_before_durable(s: Scenario, bad: bool) -> None:
    s.logs(s.proposes(THREE, 1, 1), ONE, durably=not bad)
    s.judge.said[Ack](ONE, THREE, Ack(z(1, 1)))


@breaks(DurableBeforeAck)
def epoch_acknowledged_before_durable(s: Scenario, bad: bool) -> None:
    s.leads(THREE, 1)
    s.epochs(0 if bad else 1, ONE)
    s.judge.said[AckNewLeader](ONE, THREE, AckNewLeader(Epoch(1)))


@breaks(DurableBeforeAck)
def epoch_acknowledged_before_its_history(s: Scenario, bad: bool) -> None:
    first = s.proposes(THREE, 1, 1)
    s.logs(first, THREE)
    s.logs(first, ONE, durably=not bad)
    s.leads(THREE, 2)
    s.epochs(2, ONE)
    s.judge.said[AckNewLeader](ONE, THREE, AckNewLeader(Epoch(2)))


@breaks(DurableBeforeAck)
def promised_before_durable(s: Scenario, bad: bool) -> None:
    s.judge.heard_leader_info(ONE, Epoch(2))
    s.epochs(1 if bad else 2, ONE)
    s.judge.said[AckEpoch](ONE, THREE, AckEpoch(Epoch(0), NOTHING, 0))


@breaks(DurableBeforeAck)
def announced_before_durable(s: Scenario, bad: bool) -> None:
    s.epochs(1 if bad else 2, THREE)
    s.judge.said[LeaderInfo](THREE, ONE, LeaderInfo(Epoch(2)))


@breaks(HistoryBeforeEpoch)
def epoch_before_history(s: Scenario, bad: bool) -> None:
    first = s.proposes(THREE, 1, 1)
    s.logs(first, THREE)
    s.leads(THREE, 2)
    if not bad:
        s.logs(first, ONE)
    s.epochs(2, ONE)


@breaks(HistoryBeforeEpoch)
def restarted_in_an_epoch_without_its_history(s: Scenario, bad: bool) -> None:
    first = s.proposes(THREE, 1, 1)
    s.logs(first, THREE)
    s.leads(THREE, 2)
    batches = () if bad else (first,)
    s.judge.started(ONE, Recovered(Epoch(2), Epoch(2), batches=batches), NOTHING if bad else first.last)


@breaks(HistoryBeforeEpoch)
def restarted_without_a_history_that_was_not_truncated(s: Scenario, bad: bool) -> None:
    first = s.proposes(THREE, 1, 1)
    s.logs(first, THREE, ONE)
    s.leads(THREE, 2)
    s.epochs(2, ONE)
    s.judge.heard_leader_info(ONE, Epoch(3))
    if not bad:
        s.judge.truncated(ONE, NOTHING)
    s.judge.started(ONE, Recovered(Epoch(3), Epoch(2)), NOTHING)


@breaks(EpochsAscend)
def epoch_goes_back(s: Scenario, bad: bool) -> None:
    s.epochs(2, ONE)
    s.judge.durable_epochs(ONE, Epoch(2), Epoch(1 if bad else 2))


@breaks(EpochsAscend)
def adopted_more_than_promised(s: Scenario, bad: bool) -> None:
    s.judge.durable_epochs(ONE, Epoch(1), Epoch(2 if bad else 1))


@breaks(EpochsAscend)
def logged_more_than_promised(s: Scenario, bad: bool) -> None:
    s.epochs(1, ONE)
    s.logs(pack(z(2 if bad else 1, 1), [b"a"]), ONE)


@breaks(EpochsAscend)
def promise_is_lost_on_restart(s: Scenario, bad: bool) -> None:
    s.epochs(2, ONE)
    s.judge.crashed(ONE)
    s.judge.started(ONE, Recovered(Epoch(1 if bad else 2), Epoch(1 if bad else 2)), NOTHING)


@breaks(DurableOnQuorum)
def committed_by_one(s: Scenario, bad: bool) -> None:
    first = s.proposes(THREE, 1, 1)
    s.logs(first, THREE, FOUR, *(() if bad else (ONE,)))
    s.judge.committed(THREE, first.last, True)


@breaks(DurableOnQuorum)
def acknowledged_by_one(s: Scenario, bad: bool) -> None:
    first = s.proposes(THREE, 1, 1)
    s.logs(first, THREE, *(() if bad else (ONE,)))
    s.judge.acknowledged(THREE, first.last)


@breaks(DurableOnQuorum)
def change_without_the_new_members(s: Scenario, bad: bool) -> None:
    changed = ENSEMBLE.changed(leaving=(ONE, TWO), joining=(member(FOUR),), version=z(1, 1))
    batch = pack(z(1, 1), [changed.text().encode()], config=True)
    s.logs(batch, ONE, TWO, THREE, *(() if bad else (FOUR,)))
    s.judge.committed(THREE, batch.last, True)


@breaks(DurableOnQuorum)
def lost_disk_keeps_commits_valid(s: Scenario, bad: bool) -> None:
    first = s.proposes(THREE, 1, 1)
    s.logs(first, THREE, *(() if bad else (ONE,)))
    s.judge.disk_lost(ONE)
    s.judge.crashed(ONE)
    s.judge.started(ONE, Recovered(Epoch(0), Epoch(0), voting=False), NOTHING)
    s.judge.committed(THREE, first.last, True)


@breaks(AdoptedByQuorum)
def up_to_date_too_early(s: Scenario, bad: bool) -> None:
    s.leads(THREE, 1)
    s.epochs(1, THREE, *(() if bad else (ONE,)))
    s.judge.said[UpToDate](THREE, ONE, UpToDate(NOTHING))


@breaks(DurableBeforeAck)
def epoch_without_an_established_leader(s: Scenario, bad: bool) -> None:
    s.epochs(0 if bad else 1, ONE)
    s.judge.said[AckNewLeader](ONE, THREE, AckNewLeader(Epoch(1)))


@breaks(HistoryBeforeEpoch)
def promise_is_no_adoption(s: Scenario, bad: bool) -> None:
    """Its disk may lack the initial history of its epoch, because it does not vote."""
    first = s.proposes(THREE, 1, 1)
    s.logs(first, THREE, ONE)
    s.leads(THREE, 2)
    s.epochs(1 if bad else 2, ONE)
    s.judge.durable_end(ONE, NOTHING)
    s.judge.durable_epochs(ONE, Epoch(3), Epoch(2))


@breaks(HistoryBeforeEpoch)
def non_voting_server_may_lack_its_history(s: Scenario, bad: bool) -> None:
    first = s.proposes(THREE, 1, 1)
    s.logs(first, THREE)
    s.leads(THREE, 2)
    s.restarts(ONE, 2, voting=bad)


@breaks(EpochsAscend)
def only_a_promise_is_lost(s: Scenario, bad: bool) -> None:
    s.judge.durable_epochs(ONE, Epoch(2), Epoch(1))
    s.judge.started(ONE, Recovered(Epoch(1 if bad else 2), Epoch(1)), NOTHING)


@breaks(EpochsAscend)
def only_an_adoption_is_lost(s: Scenario, bad: bool) -> None:
    s.judge.durable_epochs(ONE, Epoch(2), Epoch(2))
    s.judge.started(ONE, Recovered(Epoch(2), Epoch(1 if bad else 2)), NOTHING)


@breaks(EpochsAscend)
def restored_disk_loses_epochs(s: Scenario, bad: bool) -> None:
    s.epochs(2, ONE)
    if not bad:
        s.judge.disk_went_back(ONE)
    s.restarts(ONE, 1)


@breaks(EpochsAscend)
def server_that_lost_its_promises_does_not_vote(s: Scenario, bad: bool) -> None:
    s.epochs(2, ONE)
    s.restarts(ONE, 1, voting=bad)


@breaks(DurableOnQuorum)
def change_without_a_quorum_of_the_old_members(s: Scenario, bad: bool) -> None:
    """Another transaction follows the change in the same step."""
    changed = ENSEMBLE.changed(leaving=(ONE, TWO), joining=(member(FOUR),), version=z(1, 1))
    change = pack(z(1, 1), [changed.text().encode()], config=True)
    more = s.proposes(THREE, 1, 2)
    s.logs(change, THREE, FOUR, *(() if bad else (ONE,)))
    s.logs(more, THREE, FOUR)
    s.commits(THREE, more.last)


def _changes(s: Scenario) -> Batch:
    """Server 3 leads epoch 1, in which 4 replaces 1 and 2; servers 1, 3 and 4 have the change."""
    s.leads(THREE, 1)
    changed = ENSEMBLE.changed(leaving=(ONE, TWO), joining=(member(FOUR),), version=z(1, 1))
    change = pack(z(1, 1), [changed.text().encode()], config=True)
    s.logs(change, ONE, THREE, FOUR)
    return change


@breaks(DurableOnQuorum)
def committed_after_a_change_in_the_same_step(s: Scenario, bad: bool) -> None:
    _changes(s)
    more = s.proposes(THREE, 1, 2)
    s.logs(more, THREE, FOUR, *(() if bad else (ONE,)))
    s.commits(THREE, more.last)


@breaks(DurableOnQuorum)
def sent_before_a_change_was_in_force(s: Scenario, bad: bool) -> None:
    """The commit comes later: removed servers are needed for it, but not for later proposals."""
    change = _changes(s)
    more = s.proposes(THREE, 1, 2)
    s.logs(more, THREE, FOUR, *(() if bad else (ONE,)))
    s.commits(THREE, change.last)
    last = s.proposes(THREE, 1, 3)
    s.logs(last, THREE, FOUR)
    s.commits(THREE, last.last)


@breaks(DurableOnQuorum)
def sent_when_a_change_was_in_force(s: Scenario, bad: bool) -> None:
    change = _changes(s)
    more = s.proposes(THREE, 1, 2)
    if bad:
        s.logs(more, THREE, FOUR)
    s.commits(THREE, change.last)
    if not bad:
        s.logs(more, THREE, FOUR)
    s.commits(THREE, more.last)


@breaks(DurableOnQuorum)
def next_epoch_needs_only_the_remaining_members(s: Scenario, bad: bool) -> None:
    change = _changes(s)
    more = s.proposes(THREE, 1, 2)
    s.logs(more, THREE, FOUR)
    s.commits(THREE, change.last)
    if not bad:
        s.leads(FOUR, 2)
    s.commits(THREE if bad else FOUR, more.last)


@breaks(DurableOnQuorum)
def change_from_the_epoch_before(s: Scenario, bad: bool) -> None:
    """Server 4 leads, and commits the proposals of 3 in one step; for 3 that would be too early."""
    _changes(s)
    more = s.proposes(THREE, 1, 2)
    s.logs(more, THREE, FOUR)
    if not bad:
        s.leads(FOUR, 2)
    s.commits(THREE if bad else FOUR, more.last)


@breaks(DurableOnQuorum)
def lost_disk_may_have_had_the_transaction(s: Scenario, bad: bool) -> None:
    """Server 1 loses its disk twice; it had the transaction before."""
    first = s.proposes(THREE, 1, 1)
    s.judge.disk_lost(ONE)
    s.logs(first, THREE, *(() if bad else (ONE,)))
    s.judge.disk_lost(ONE)
    s.restarts(ONE, 0, voting=False)
    s.commits(THREE, first.last)


@breaks(DurableOnQuorum)
def restored_disk_keeps_commits_valid(s: Scenario, bad: bool) -> None:
    first = s.proposes(THREE, 1, 1)
    s.logs(first, THREE, *(() if bad else (ONE,)))
    s.judge.disk_went_back(ONE)
    s.judge.crashed(ONE)
    s.restarts(ONE, 0)
    s.commits(THREE, first.last)


@breaks(AdoptedByQuorum)
def adoption_that_a_restart_finds(s: Scenario, bad: bool) -> None:
    s.leads(THREE, 1)
    s.epochs(1, THREE)
    s.restarts(ONE, 1, voting=not bad)
    s.judge.said[UpToDate](THREE, ONE, UpToDate(NOTHING))


@breaks(AdoptedByQuorum)
def up_to_date_in_an_epoch_without_a_leader(s: Scenario, bad: bool) -> None:
    if not bad:
        s.leads(THREE, 1)
    s.judge.role(THREE, State.LEADING, Epoch(1), THREE, True)
    s.epochs(1, ONE, TWO, THREE)
    s.judge.said[UpToDate](THREE, ONE, UpToDate(NOTHING))


@breaks(DurableOnQuorum)
def committed_by_one_group(s: Scenario, bad: bool) -> None:
    """Servers 1 and 2 are a majority, but not one of each group; 3 alone is one, and 1 has no weight."""
    changed = Ensemble(
        tuple(member(sid) for sid in (ONE, TWO, THREE)),
        z(1, 1),
        (Group(1, (ONE, TWO)), Group(2, (THREE,))),
        {ONE: 0, THREE: 2},
    )
    change = pack(z(1, 1), [changed.text().encode()], config=True)
    s.logs(change, ONE, TWO, THREE)
    s.commits(TWO, change.last)
    more = s.proposes(TWO, 1, 2)
    s.logs(more, *((ONE, TWO) if bad else (TWO, THREE)))
    s.commits(TWO, more.last)


@breaks(MembersBeforeSnapshot)
def snapshot_with_the_former_membership(s: Scenario, bad: bool) -> None:
    change = _changes(s)
    s.commits(THREE, change.last)
    s.judge.goes_by(TWO, NOTHING if bad else change.last)
    s.judge.installed(TWO, change.last)


@breaks(MembersBeforeSnapshot)
def restart_finds_the_membership(s: Scenario, bad: bool) -> None:
    change = _changes(s)
    s.commits(THREE, change.last)
    s.judge.goes_by(TWO, change.last)
    s.judge.crashed(TWO)
    found = None if bad else ENSEMBLE.changed(leaving=(ONE, TWO), joining=(member(FOUR),), version=change.last)
    s.judge.started(TWO, Recovered(Epoch(1), Epoch(1), ensemble=found), NOTHING)
    s.judge.installed(TWO, change.last)


@breaks(DurableOnQuorum)
def transaction_that_only_its_leader_had_when_a_change_was_activated(s: Scenario, bad: bool) -> None:
    """Only servers that know the change received it, so the removed servers are not needed."""
    change = _changes(s)
    more = s.proposes(THREE, 1, 2)
    s.logs(more, THREE, *((FOUR,) if bad else ()))
    s.commits(THREE, change.last)
    if not bad:
        s.logs(more, FOUR)
    s.commits(THREE, more.last)


@breaks(DurableOnQuorum)
def removed_server_is_not_needed_in_the_next_epoch(s: Scenario, bad: bool) -> None:
    change = _changes(s)
    more = s.proposes(THREE, 1, 2)
    last = s.proposes(THREE, 1, 3)
    s.logs(more, THREE, FOUR, ONE)
    s.logs(last, THREE, FOUR)
    s.commits(THREE, change.last)
    if not bad:
        s.leads(FOUR, 2)
        s.commits(FOUR, more.last)
    s.commits(THREE, last.last)


@breaks(DurableOnQuorum)
def removed_server_does_not_count_in_another_epoch(s: Scenario, bad: bool) -> None:
    """Server 2 received it in a newer epoch; this leader had not proposed it before its change was active."""
    change = _changes(s)
    s.logs(batch(2, 1), TWO)
    s.commits(THREE, change.last)
    more = s.proposes(THREE, 1, 2)
    s.logs(more, THREE, *(() if bad else (FOUR,)))
    s.commits(THREE, more.last)


def _decides(s: Scenario) -> Batch:
    """Server 4 votes from 1/2 on, which server 1 receives during its synchronization."""
    first = s.begins()
    members = ENSEMBLE.changed([member(FOUR)], version=z(1, 2))
    change = pack(z(1, 2), [members.text().encode()], config=True)
    s.judge.proposed(THREE, change.first, change.payloads())
    s.logs(change, ONE, TWO, THREE)
    s.judge.role(ONE, State.FOLLOWING, Epoch(1), THREE, False)
    s.commits(THREE, change.last)
    assert first.last < change.first
    return change


@breaks(DecidedIsInForce)
def acknowledged_with_the_former_membership(s: Scenario, bad: bool) -> None:
    change = _decides(s)
    s.judge.heard_commit(ONE, change.last)
    s.judge.goes_by(ONE, z(1, 1) if bad else change.last)
    s.acks(ONE, THREE, z(1, 3))


@breaks(DecidedIsInForce)
def acknowledged_without_any_membership(s: Scenario, bad: bool) -> None:
    change = _decides(s)
    if bad:
        s.judge.heard_commit(ONE, change.last)
    s.acks(ONE, THREE, change.last)


@breaks(DecidedIsInForce)
def older_commit_is_received_after_a_newer_one(s: Scenario, bad: bool) -> None:
    change = _decides(s)
    s.judge.heard_commit(ONE, change.last)
    s.judge.heard_commit(ONE, z(1, 1))
    s.judge.goes_by(ONE, z(1, 1) if bad else change.last)
    s.acks(ONE, THREE, change.last)


@breaks(DecidedIsInForce)
def commit_received_by_a_former_follower(s: Scenario, bad: bool) -> None:
    change = _decides(s)
    if not bad:
        s.judge.role(ONE, State.LOOKING, Epoch(1), None, False)
    s.judge.heard_commit(ONE, change.last)
    if not bad:
        s.judge.role(ONE, State.FOLLOWING, Epoch(1), THREE, False)
    s.acks(ONE, THREE, change.last)


@breaks(DecidedIsInForce)
def commit_received_from_a_former_leader(s: Scenario, bad: bool) -> None:
    change = _decides(s)
    s.judge.heard_commit(ONE, change.last)
    if not bad:
        s.judge.role(ONE, State.FOLLOWING, Epoch(1), TWO, False)
    s.acks(ONE, TWO, change.last)


@breaks(DecidedIsInForce)
def membership_on_the_disk_is_known(s: Scenario, bad: bool) -> None:
    change = _decides(s)
    s.judge.crashed(ONE)
    found = ENSEMBLE if bad else ENSEMBLE.changed([member(FOUR)], version=change.last)
    s.judge.started(ONE, Recovered(Epoch(1), Epoch(1), ensemble=found), change.last)
    s.judge.role(ONE, State.FOLLOWING, Epoch(1), THREE, False)
    s.judge.heard_commit(ONE, change.last)
    s.acks(ONE, THREE, change.last)


@breaks(DecidedIsInForce)
def commit_received_before_a_restart_does_not_count(s: Scenario, bad: bool) -> None:
    change = _decides(s)
    s.judge.heard_commit(ONE, change.last)
    if not bad:
        s.judge.started(ONE, Recovered(Epoch(1), Epoch(1)), change.last)
    s.acks(ONE, THREE, change.last)


def _forgets(s: Scenario, members: int) -> None:
    """Server 1 has lost its disk, and server 3 synchronizes it with the former membership."""
    s.begins()
    s.judge.started(ONE, Recovered(Epoch(0), Epoch(0), voting=False, forgotten=True), NOTHING)
    s.judge.role(ONE, State.FOLLOWING, Epoch(0), THREE, False)
    s.judge.said[NewLeader](THREE, ONE, NewLeader(Epoch(1), evolve(ENSEMBLE, version=z(1, members))))


@breaks(ReadmittedBySomethingNewer)
def readmitted_by_the_membership_of_its_synchronization(s: Scenario, bad: bool) -> None:
    _forgets(s, 2)
    s.judge.remembers(ONE, z(1, 2 if bad else 3))


@breaks(ReadmittedBySomethingNewer)
def readmitted_without_a_leader(s: Scenario, bad: bool) -> None:
    _forgets(s, 2)
    if bad:
        s.judge.role(ONE, State.LOOKING, Epoch(0), None, False)
    s.judge.remembers(ONE, z(1, 3))


@breaks(ReadmittedBySomethingNewer)
def readmitted_by_the_membership_of_another_leader(s: Scenario, bad: bool) -> None:
    _forgets(s, 2)
    s.judge.role(ONE, State.FOLLOWING, Epoch(0), TWO, False)
    s.judge.said[NewLeader](TWO, ONE, NewLeader(Epoch(2), evolve(ENSEMBLE, version=z(1, 3))))
    s.judge.remembers(ONE, z(1, 3 if bad else 4))


@breaks(ReadmittedBySomethingNewer)
def server_with_its_promises_needs_no_readmission(s: Scenario, bad: bool) -> None:
    _forgets(s, 2)
    if not bad:
        s.judge.started(ONE, Recovered(Epoch(1), Epoch(1)), NOTHING)
    s.judge.remembers(ONE, z(1, 1))


@breaks(ReadmittedBySomethingNewer)
def readmitted_server_stays(s: Scenario, bad: bool) -> None:
    _forgets(s, 2)
    s.judge.remembers(ONE, z(1, 2 if bad else 3))
    s.judge.remembers(ONE, z(1, 2))


def _under_way(s: Scenario, *having: ServerId) -> Batch:
    """Server 3 has proposed the same members again before it synchronizes server 1, which lost its promises."""
    s.begins()
    s.judge.disk_lost(ONE)
    s.judge.started(ONE, Recovered(Epoch(0), Epoch(0), voting=False, forgotten=True), NOTHING)
    change = _proposed(s, 2, THREE, *having)
    _healed(s)
    return change


def _proposed(s: Scenario, counter: int, *having: ServerId) -> Batch:
    change = pack(z(1, counter), [evolve(ENSEMBLE, version=z(1, counter)).text().encode()], config=True)
    s.judge.proposed(THREE, change.first, change.payloads())
    s.logs(change, *having)
    s.judge.broadcasts(THREE, Epoch(1))
    return change


def _healed(s: Scenario) -> None:
    s.judge.role(ONE, State.FOLLOWING, Epoch(0), THREE, False)
    s.judge.said[NewLeader](THREE, ONE, NewLeader(Epoch(1), ENSEMBLE))


@breaks(ReadmittedBySomethingNewer)
def readmitted_by_an_outstanding_change(s: Scenario, bad: bool) -> None:
    change = _under_way(s)
    if not bad:
        change = _proposed(s, 3, THREE)
    s.judge.remembers(ONE, change.last)


@breaks(ReadmittedBySomethingNewer)
def readmitted_by_a_change_of_the_same_step(s: Scenario, bad: bool) -> None:
    """The proposal may have been before or after the synchronization."""
    s.begins()
    s.judge.started(ONE, Recovered(Epoch(0), Epoch(0), voting=False, forgotten=True), NOTHING)
    change = pack(z(1, 2), [evolve(ENSEMBLE, version=z(1, 2)).text().encode()], config=True)
    s.logs(change, THREE)
    if bad:
        s.judge.broadcasts(THREE, Epoch(1))
    _healed(s)
    s.judge.broadcasts(THREE, Epoch(1))
    s.judge.remembers(ONE, change.last)


@breaks(ReadmittedBySomethingNewer)
def change_of_the_same_step_after_an_earlier_one(s: Scenario, bad: bool) -> None:
    _under_way(s)
    change = pack(z(1, 3), [evolve(ENSEMBLE, version=z(1, 3)).text().encode()], config=True)
    s.logs(change, THREE)
    _healed(s)
    s.judge.remembers(ONE, z(1, 2) if bad else change.last)


@breaks(ReadmittedBySomethingNewer)
def counted_by_an_outstanding_change(s: Scenario, bad: bool) -> None:
    change = _under_way(s, ONE, TWO)
    s.commits(THREE, change.last)
    more = s.proposes(THREE, 1, 3)
    s.logs(more, THREE, ONE, *(() if bad else (TWO,)))
    s.commits(THREE, more.last)


@breaks(ReadmittedBySomethingNewer)
def counted_for_its_own_readmission(s: Scenario, bad: bool) -> None:
    """Transactions that are committed with the change are counted by the membership in force there."""
    _under_way(s, ONE, TWO)
    again = _proposed(s, 3, THREE, ONE, *(() if bad else (TWO,)))
    more = s.proposes(THREE, 1, 4)
    s.logs(more, THREE, ONE)
    s.commits(THREE, more.last)
    assert again.last < more.last


@breaks(ReadmittedBySomethingNewer)
def counted_by_a_leader_that_did_not_synchronize_it(s: Scenario, bad: bool) -> None:
    _under_way(s, ONE, TWO)
    again = _proposed(s, 3, THREE, TWO)
    s.commits(THREE, again.last)
    if bad:
        s.leads(TWO, 2)
    more = s.proposes(TWO if bad else THREE, 2, 1)
    s.logs(more, TWO if bad else THREE, ONE)
    s.commits(TWO if bad else THREE, more.last)


@breaks(ReadmittedBySomethingNewer)
def acknowledged_before_it_lost_its_promises(s: Scenario, bad: bool) -> None:
    s.begins()
    more = s.proposes(THREE, 1, 2)
    s.logs(more, THREE, ONE)
    if not bad:
        s.judge.disk_lost(ONE)
    s.judge.started(ONE, Recovered(Epoch(0), Epoch(0), batches=(), forgotten=True), more.last)
    s.commits(THREE, more.last)


@breaks(ReadmittedBySomethingNewer)
def no_server_has_lost_its_promises(s: Scenario, bad: bool) -> None:
    """Another invariant checks that too few servers have it."""
    s.begins()
    if bad:
        s.judge.started(ONE, Recovered(Epoch(0), Epoch(0), forgotten=True), NOTHING)
    more = s.proposes(THREE, 1, 2)
    s.logs(more, THREE)
    s.commits(THREE, more.last)


@breaks(ReadmittedBySomethingNewer)
def readmitted_server_counts(s: Scenario, bad: bool) -> None:
    _under_way(s, ONE, TWO)
    again = _proposed(s, 3, THREE, TWO)
    s.commits(THREE, again.last)
    if not bad:
        s.judge.remembers(ONE, again.last)
    s.leads(TWO, 2)
    more = s.proposes(TWO, 2, 1)
    s.logs(more, TWO, ONE)
    s.commits(TWO, more.last)


@breaks(ReadmittedBySomethingNewer)
def committed_transaction_needs_no_quorum_again(s: Scenario, bad: bool) -> None:
    """A leader of the next epoch sends it again, after two servers have lost their promises."""
    first = s.begins()
    for sid in (ONE, TWO):
        s.judge.started(sid, Recovered(Epoch(0), Epoch(0), forgotten=True), NOTHING)
    more = s.proposes(THREE, 1, 2)
    s.logs(more, THREE)
    s.commits(THREE, more.last if bad else first.last)


def _members(version: Zxid) -> Ensemble:
    """Server 4 votes as well."""
    return ENSEMBLE.changed([member(FOUR)], version=version)


@breaks(ActivatedIsDecided)
def truncated_change_is_activated(s: Scenario, bad: bool) -> None:
    first = s.begins()
    members = _members(z(1, 2))
    change = pack(z(1, 2), [members.text().encode()], config=True)
    s.logs(change, THREE)
    s.epochs(2, ONE, TWO)
    s.leads(TWO, 2)
    if bad:
        s.judge.truncated(THREE, first.last)
        s.judge.durable_end(THREE, first.last)
    else:
        s.logs(change, TWO)
        s.commits(TWO, change.last)
    more = s.proposes(TWO, 2, 1)
    s.logs(more, TWO, THREE)
    s.commits(TWO, more.last)
    s.judge.activated(THREE, members)


@breaks(ActivatedIsDecided)
def committed_change_is_activated_with_other_members(s: Scenario, bad: bool) -> None:
    change = _decides(s)
    members = _members(change.last)
    s.judge.activated(ONE, members.changed(leaving=(TWO,), version=change.last) if bad else members)


@breaks(ActivatedIsDecided)
def serving_server_activates_a_change_that_it_has_not_logged(s: Scenario, bad: bool) -> None:
    """A looking server may learn the membership from others."""
    change = _decides(s)
    s.judge.role(FOUR, State.OBSERVING, Epoch(1), THREE, bad)
    s.judge.activated(FOUR, _members(change.last))


@breaks(ActivatedIsDecided)
def history_lacks_an_activated_change_before_its_end(s: Scenario, bad: bool) -> None:
    """The disk of a server that lost data proves nothing."""
    change = _decides(s)
    s.logs(batch(2, 1), FOUR)
    if not bad:
        s.judge.disk_lost(FOUR)
    s.judge.activated(FOUR, _members(change.last))


@breaks(ActivatedIsDecided)
def first_membership_is_activated_after_a_change(s: Scenario, bad: bool) -> None:
    """The members equal those before the change, but the version was committed."""
    same = evolve(ENSEMBLE, version=z(1, 2))
    change = pack(z(1, 2), [same.text().encode()], config=True)
    s.begins()
    s.logs(change, ONE, TWO, THREE)
    s.commits(THREE, change.last)
    s.judge.activated(ONE, evolve(ENSEMBLE, version=z(1, 0)))
    s.epochs(2, ONE, TWO)
    s.leads(TWO, 2)
    s.judge.activated(TWO, evolve(ENSEMBLE, version=z(2, 0)) if bad else same)


@breaks(ActivatedIsDecided)
def first_membership_has_other_members(s: Scenario, bad: bool) -> None:
    s.begins()
    s.judge.activated(ONE, evolve(_members(z(1, 0)) if bad else ENSEMBLE, version=z(1, 0)))
