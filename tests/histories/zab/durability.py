"""What is on disks before something is said or done."""

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
from tests.histories.zab.story import ENSEMBLE, FOUR, ONE, THREE, TWO, Story, batch, breaks, z
from zab.core.batch import Batch, pack
from zab.core.ensemble import Ensemble, Group
from zab.core.messages import Ack, AckEpoch, AckNewLeader, LeaderInfo, NewLeader, State, UpToDate
from zab.core.ready import Recovered
from zab.core.zxid import NOTHING, Epoch, ServerId, Zxid


@breaks(DurableBeforeAck)
def durable_in_a_history_that_is_gone(story: Story, bad: bool) -> None:
    first = story.begins()
    old = story.proposes(THREE, 1, 2)
    story.logs(old, THREE, durably=False)
    story.epochs(2, ONE, TWO)
    story.leads(TWO, 2)
    new = story.proposes(TWO, 2, 1)
    story.logs(new, ONE, TWO)
    story.judge.installed(THREE, new.last)
    story.judge.durable_append(THREE, old)
    story.judge.counts_durable(THREE, old.last if bad else first.last)


@breaks(DurableBeforeAck)
def acknowledged_before_durable(story: Story, bad: bool) -> None:
    story.logs(story.proposes(THREE, 1, 1), ONE, durably=not bad)
    story.judge.said[Ack](ONE, THREE, Ack(z(1, 1)))


@breaks(DurableBeforeAck)
def epoch_acknowledged_before_durable(story: Story, bad: bool) -> None:
    story.leads(THREE, 1)
    story.epochs(0 if bad else 1, ONE)
    story.judge.said[AckNewLeader](ONE, THREE, AckNewLeader(Epoch(1)))


@breaks(DurableBeforeAck)
def epoch_acknowledged_before_its_history(story: Story, bad: bool) -> None:
    first = story.proposes(THREE, 1, 1)
    story.logs(first, THREE)
    story.logs(first, ONE, durably=not bad)
    story.leads(THREE, 2)
    story.epochs(2, ONE)
    story.judge.said[AckNewLeader](ONE, THREE, AckNewLeader(Epoch(2)))


@breaks(DurableBeforeAck)
def promised_before_durable(story: Story, bad: bool) -> None:
    story.judge.heard_leader_info(ONE, Epoch(2))
    story.epochs(1 if bad else 2, ONE)
    story.judge.said[AckEpoch](ONE, THREE, AckEpoch(Epoch(0), NOTHING, 0))


@breaks(DurableBeforeAck)
def announced_before_durable(story: Story, bad: bool) -> None:
    story.epochs(1 if bad else 2, THREE)
    story.judge.said[LeaderInfo](THREE, ONE, LeaderInfo(Epoch(2)))


@breaks(HistoryBeforeEpoch)
def epoch_before_history(story: Story, bad: bool) -> None:
    first = story.proposes(THREE, 1, 1)
    story.logs(first, THREE)
    story.leads(THREE, 2)
    if not bad:
        story.logs(first, ONE)
    story.epochs(2, ONE)


@breaks(HistoryBeforeEpoch)
def restarted_in_an_epoch_without_its_history(story: Story, bad: bool) -> None:
    first = story.proposes(THREE, 1, 1)
    story.logs(first, THREE)
    story.leads(THREE, 2)
    batches = () if bad else (first,)
    story.judge.started(ONE, Recovered(Epoch(2), Epoch(2), batches=batches), NOTHING if bad else first.last)


@breaks(HistoryBeforeEpoch)
def restarted_without_a_history_that_nobody_cut(story: Story, bad: bool) -> None:
    first = story.proposes(THREE, 1, 1)
    story.logs(first, THREE, ONE)
    story.leads(THREE, 2)
    story.epochs(2, ONE)
    story.judge.heard_leader_info(ONE, Epoch(3))
    if not bad:
        story.judge.truncated(ONE, NOTHING)
    story.judge.started(ONE, Recovered(Epoch(3), Epoch(2)), NOTHING)


@breaks(EpochsAscend)
def an_epoch_goes_back(story: Story, bad: bool) -> None:
    story.epochs(2, ONE)
    story.judge.durable_epochs(ONE, Epoch(2), Epoch(1 if bad else 2))


@breaks(EpochsAscend)
def adopted_more_than_promised(story: Story, bad: bool) -> None:
    story.judge.durable_epochs(ONE, Epoch(1), Epoch(2 if bad else 1))


@breaks(EpochsAscend)
def logged_more_than_promised(story: Story, bad: bool) -> None:
    story.epochs(1, ONE)
    story.logs(pack(z(2 if bad else 1, 1), [b"a"]), ONE)


@breaks(EpochsAscend)
def a_promise_is_forgotten(story: Story, bad: bool) -> None:
    story.epochs(2, ONE)
    story.judge.crashed(ONE)
    story.judge.started(ONE, Recovered(Epoch(1 if bad else 2), Epoch(1 if bad else 2)), NOTHING)


@breaks(DurableOnQuorum)
def committed_by_one(story: Story, bad: bool) -> None:
    first = story.proposes(THREE, 1, 1)
    story.logs(first, THREE, FOUR, *(() if bad else (ONE,)))
    story.judge.committed(THREE, first.last, True)


@breaks(DurableOnQuorum)
def acknowledged_by_one(story: Story, bad: bool) -> None:
    first = story.proposes(THREE, 1, 1)
    story.logs(first, THREE, *(() if bad else (ONE,)))
    story.judge.acknowledged(THREE, first.last)


@breaks(DurableOnQuorum)
def a_change_without_the_new_members(story: Story, bad: bool) -> None:
    changed = ENSEMBLE.changed(leaving=(ONE, TWO), joining=(member(FOUR),), version=z(1, 1))
    batch = pack(z(1, 1), [changed.text().encode()], config=True)
    story.logs(batch, ONE, TWO, THREE, *(() if bad else (FOUR,)))
    story.judge.committed(THREE, batch.last, True)


@breaks(DurableOnQuorum)
def a_lost_disk_uncommits_nothing(story: Story, bad: bool) -> None:
    first = story.proposes(THREE, 1, 1)
    story.logs(first, THREE, *(() if bad else (ONE,)))
    story.judge.disk_lost(ONE)
    story.judge.crashed(ONE)
    story.judge.started(ONE, Recovered(Epoch(0), Epoch(0), voting=False), NOTHING)
    story.judge.committed(THREE, first.last, True)


@breaks(AdoptedByQuorum)
def up_to_date_too_early(story: Story, bad: bool) -> None:
    story.leads(THREE, 1)
    story.epochs(1, THREE, *(() if bad else (ONE,)))
    story.judge.said[UpToDate](THREE, ONE, UpToDate(NOTHING))


@breaks(DurableBeforeAck)
def an_epoch_that_nobody_has_begun(story: Story, bad: bool) -> None:
    story.epochs(0 if bad else 1, ONE)
    story.judge.said[AckNewLeader](ONE, THREE, AckNewLeader(Epoch(1)))


@breaks(HistoryBeforeEpoch)
def who_promises_adopts_nothing(story: Story, bad: bool) -> None:
    """Its disk may lack what the epoch that it has adopted began with; others see to that."""
    first = story.proposes(THREE, 1, 1)
    story.logs(first, THREE, ONE)
    story.leads(THREE, 2)
    story.epochs(1 if bad else 2, ONE)
    story.judge.durable_end(ONE, NOTHING)
    story.judge.durable_epochs(ONE, Epoch(3), Epoch(2))


@breaks(HistoryBeforeEpoch)
def who_does_not_vote_may_lack_its_history(story: Story, bad: bool) -> None:
    first = story.proposes(THREE, 1, 1)
    story.logs(first, THREE)
    story.leads(THREE, 2)
    story.restarts(ONE, 2, voting=bad)


@breaks(EpochsAscend)
def only_a_promise_is_forgotten(story: Story, bad: bool) -> None:
    story.judge.durable_epochs(ONE, Epoch(2), Epoch(1))
    story.judge.started(ONE, Recovered(Epoch(1 if bad else 2), Epoch(1)), NOTHING)


@breaks(EpochsAscend)
def only_an_adoption_is_forgotten(story: Story, bad: bool) -> None:
    story.judge.durable_epochs(ONE, Epoch(2), Epoch(2))
    story.judge.started(ONE, Recovered(Epoch(2), Epoch(1 if bad else 2)), NOTHING)


@breaks(EpochsAscend)
def a_disk_that_went_back_forgets(story: Story, bad: bool) -> None:
    story.epochs(2, ONE)
    if not bad:
        story.judge.disk_went_back(ONE)
    story.restarts(ONE, 1)


@breaks(EpochsAscend)
def who_forgets_and_knows_it_does_not_vote(story: Story, bad: bool) -> None:
    story.epochs(2, ONE)
    story.restarts(ONE, 1, voting=bad)


@breaks(DurableOnQuorum)
def a_change_that_the_old_members_have_not(story: Story, bad: bool) -> None:
    """Behind it something else, in the same breath."""
    changed = ENSEMBLE.changed(leaving=(ONE, TWO), joining=(member(FOUR),), version=z(1, 1))
    change = pack(z(1, 1), [changed.text().encode()], config=True)
    more = story.proposes(THREE, 1, 2)
    story.logs(change, THREE, FOUR, *(() if bad else (ONE,)))
    story.logs(more, THREE, FOUR)
    story.commits(THREE, more.last)


def _changes(story: Story) -> Batch:
    """Server 3 leads epoch 1, in which 4 is to take the place of 1 and 2; servers 1, 3 and 4 have that."""
    story.leads(THREE, 1)
    changed = ENSEMBLE.changed(leaving=(ONE, TWO), joining=(member(FOUR),), version=z(1, 1))
    change = pack(z(1, 1), [changed.text().encode()], config=True)
    story.logs(change, ONE, THREE, FOUR)
    return change


@breaks(DurableOnQuorum)
def behind_a_change_in_the_same_breath(story: Story, bad: bool) -> None:
    _changes(story)
    more = story.proposes(THREE, 1, 2)
    story.logs(more, THREE, FOUR, *(() if bad else (ONE,)))
    story.commits(THREE, more.last)


@breaks(DurableOnQuorum)
def sent_before_a_change_was_in_force(story: Story, bad: bool) -> None:
    """And committed a while after: who left is needed for it, and not for what was sent when all could know."""
    change = _changes(story)
    more = story.proposes(THREE, 1, 2)
    story.logs(more, THREE, FOUR, *(() if bad else (ONE,)))
    story.commits(THREE, change.last)
    last = story.proposes(THREE, 1, 3)
    story.logs(last, THREE, FOUR)
    story.commits(THREE, last.last)


@breaks(DurableOnQuorum)
def sent_when_a_change_was_in_force(story: Story, bad: bool) -> None:
    change = _changes(story)
    more = story.proposes(THREE, 1, 2)
    if bad:
        story.logs(more, THREE, FOUR)
    story.commits(THREE, change.last)
    if not bad:
        story.logs(more, THREE, FOUR)
    story.commits(THREE, more.last)


@breaks(DurableOnQuorum)
def the_next_epoch_needs_only_those_who_stayed(story: Story, bad: bool) -> None:
    change = _changes(story)
    more = story.proposes(THREE, 1, 2)
    story.logs(more, THREE, FOUR)
    story.commits(THREE, change.last)
    if not bad:
        story.leads(FOUR, 2)
    story.commits(THREE if bad else FOUR, more.last)


@breaks(DurableOnQuorum)
def a_change_from_the_epoch_before(story: Story, bad: bool) -> None:
    """Server 4 leads now, and decides in one breath what 3 had sent; of 3 that would be too early."""
    _changes(story)
    more = story.proposes(THREE, 1, 2)
    story.logs(more, THREE, FOUR)
    if not bad:
        story.leads(FOUR, 2)
    story.commits(THREE if bad else FOUR, more.last)


@breaks(DurableOnQuorum)
def of_all_that_was_lost_anything_may_be_it(story: Story, bad: bool) -> None:
    """Server 1 loses its disk twice, and had it once."""
    first = story.proposes(THREE, 1, 1)
    story.judge.disk_lost(ONE)
    story.logs(first, THREE, *(() if bad else (ONE,)))
    story.judge.disk_lost(ONE)
    story.restarts(ONE, 0, voting=False)
    story.commits(THREE, first.last)


@breaks(DurableOnQuorum)
def a_disk_that_went_back_uncommits_nothing(story: Story, bad: bool) -> None:
    first = story.proposes(THREE, 1, 1)
    story.logs(first, THREE, *(() if bad else (ONE,)))
    story.judge.disk_went_back(ONE)
    story.judge.crashed(ONE)
    story.restarts(ONE, 0)
    story.commits(THREE, first.last)


@breaks(AdoptedByQuorum)
def an_adoption_that_a_restart_finds(story: Story, bad: bool) -> None:
    story.leads(THREE, 1)
    story.epochs(1, THREE)
    story.restarts(ONE, 1, voting=not bad)
    story.judge.said[UpToDate](THREE, ONE, UpToDate(NOTHING))


@breaks(AdoptedByQuorum)
def up_to_date_in_an_epoch_that_nobody_has_begun(story: Story, bad: bool) -> None:
    if not bad:
        story.leads(THREE, 1)
    story.judge.role(THREE, State.LEADING, Epoch(1), THREE, True)
    story.epochs(1, ONE, TWO, THREE)
    story.judge.said[UpToDate](THREE, ONE, UpToDate(NOTHING))


@breaks(DurableOnQuorum)
def committed_by_one_group(story: Story, bad: bool) -> None:
    """Servers 1 and 2 are a majority, and not one of each group, where 3 alone is one; 1 counts for nothing."""
    changed = Ensemble(
        tuple(member(sid) for sid in (ONE, TWO, THREE)),
        z(1, 1),
        (Group(1, (ONE, TWO)), Group(2, (THREE,))),
        {ONE: 0, THREE: 2},
    )
    change = pack(z(1, 1), [changed.text().encode()], config=True)
    story.logs(change, ONE, TWO, THREE)
    story.commits(TWO, change.last)
    more = story.proposes(TWO, 1, 2)
    story.logs(more, *((ONE, TWO) if bad else (TWO, THREE)))
    story.commits(TWO, more.last)


@breaks(MembersBeforeSnapshot)
def a_snapshot_and_the_members_of_yesterday(story: Story, bad: bool) -> None:
    change = _changes(story)
    story.commits(THREE, change.last)
    story.judge.goes_by(TWO, NOTHING if bad else change.last)
    story.judge.installed(TWO, change.last)


@breaks(MembersBeforeSnapshot)
def what_a_restart_finds_of_the_members(story: Story, bad: bool) -> None:
    change = _changes(story)
    story.commits(THREE, change.last)
    story.judge.goes_by(TWO, change.last)
    story.judge.crashed(TWO)
    found = None if bad else ENSEMBLE.changed(leaving=(ONE, TWO), joining=(member(FOUR),), version=change.last)
    story.judge.started(TWO, Recovered(Epoch(1), Epoch(1), ensemble=found), NOTHING)
    story.judge.installed(TWO, change.last)


@breaks(DurableOnQuorum)
def what_only_its_leader_had_when_a_change_was_in_force(story: Story, bad: bool) -> None:
    """Nobody had been sent it who did not know of the change: who left is not needed."""
    change = _changes(story)
    more = story.proposes(THREE, 1, 2)
    story.logs(more, THREE, *((FOUR,) if bad else ()))
    story.commits(THREE, change.last)
    if not bad:
        story.logs(more, FOUR)
    story.commits(THREE, more.last)


@breaks(DurableOnQuorum)
def who_left_is_not_needed_any_more_in_the_next_epoch(story: Story, bad: bool) -> None:
    change = _changes(story)
    more = story.proposes(THREE, 1, 2)
    last = story.proposes(THREE, 1, 3)
    story.logs(more, THREE, FOUR, ONE)
    story.logs(last, THREE, FOUR)
    story.commits(THREE, change.last)
    if not bad:
        story.leads(FOUR, 2)
        story.commits(FOUR, more.last)
    story.commits(THREE, last.last)


@breaks(DurableOnQuorum)
def who_left_has_nothing_to_say_of_another_epoch(story: Story, bad: bool) -> None:
    """What server 2 was sent of a newer epoch, this leader has not proposed before its change was in force."""
    change = _changes(story)
    story.logs(batch(2, 1), TWO)
    story.commits(THREE, change.last)
    more = story.proposes(THREE, 1, 2)
    story.logs(more, THREE, *(() if bad else (FOUR,)))
    story.commits(THREE, more.last)


def _decides(story: Story) -> Batch:
    """Server 4 votes, too, from 1/2 on, which server 1 is told when it has been brought up to date as far as that."""
    first = story.begins()
    members = ENSEMBLE.changed([member(FOUR)], version=z(1, 2))
    change = pack(z(1, 2), [members.text().encode()], config=True)
    story.judge.proposed(THREE, change.first, change.payloads())
    story.logs(change, ONE, TWO, THREE)
    story.judge.role(ONE, State.FOLLOWING, Epoch(1), THREE, False)
    story.commits(THREE, change.last)
    assert first.last < change.first
    return change


@breaks(DecidedIsInForce)
def acknowledged_by_the_members_of_yesterday(story: Story, bad: bool) -> None:
    change = _decides(story)
    story.judge.heard_commit(ONE, change.last)
    story.judge.goes_by(ONE, z(1, 1) if bad else change.last)
    story.acks(ONE, THREE, z(1, 3))


@breaks(DecidedIsInForce)
def acknowledged_without_going_by_anything(story: Story, bad: bool) -> None:
    change = _decides(story)
    if bad:
        story.judge.heard_commit(ONE, change.last)
    story.acks(ONE, THREE, change.last)


@breaks(DecidedIsInForce)
def an_older_commit_is_heard_behind_a_newer(story: Story, bad: bool) -> None:
    change = _decides(story)
    story.judge.heard_commit(ONE, change.last)
    story.judge.heard_commit(ONE, z(1, 1))
    story.judge.goes_by(ONE, z(1, 1) if bad else change.last)
    story.acks(ONE, THREE, change.last)


@breaks(DecidedIsInForce)
def heard_by_who_follows_no_more(story: Story, bad: bool) -> None:
    change = _decides(story)
    if not bad:
        story.judge.role(ONE, State.LOOKING, Epoch(1), None, False)
    story.judge.heard_commit(ONE, change.last)
    if not bad:
        story.judge.role(ONE, State.FOLLOWING, Epoch(1), THREE, False)
    story.acks(ONE, THREE, change.last)


@breaks(DecidedIsInForce)
def heard_from_a_leader_that_is_left(story: Story, bad: bool) -> None:
    change = _decides(story)
    story.judge.heard_commit(ONE, change.last)
    if not bad:
        story.judge.role(ONE, State.FOLLOWING, Epoch(1), TWO, False)
    story.acks(ONE, TWO, change.last)


@breaks(DecidedIsInForce)
def what_is_found_on_the_disk_is_known(story: Story, bad: bool) -> None:
    change = _decides(story)
    story.judge.crashed(ONE)
    found = ENSEMBLE if bad else ENSEMBLE.changed([member(FOUR)], version=change.last)
    story.judge.started(ONE, Recovered(Epoch(1), Epoch(1), ensemble=found), change.last)
    story.judge.role(ONE, State.FOLLOWING, Epoch(1), THREE, False)
    story.judge.heard_commit(ONE, change.last)
    story.acks(ONE, THREE, change.last)


@breaks(DecidedIsInForce)
def what_another_life_heard_is_forgotten(story: Story, bad: bool) -> None:
    change = _decides(story)
    story.judge.heard_commit(ONE, change.last)
    if not bad:
        story.judge.started(ONE, Recovered(Epoch(1), Epoch(1)), change.last)
    story.acks(ONE, THREE, change.last)


def _forgets(story: Story, members: int) -> None:
    """Server 1 has lost its disk, and server 3 brings it up to date by the members of then."""
    story.begins()
    story.judge.started(ONE, Recovered(Epoch(0), Epoch(0), voting=False, forgotten=True), NOTHING)
    story.judge.role(ONE, State.FOLLOWING, Epoch(0), THREE, False)
    story.judge.said[NewLeader](THREE, ONE, NewLeader(Epoch(1), evolve(ENSEMBLE, version=z(1, members))))


@breaks(ReadmittedBySomethingNewer)
def let_in_by_what_it_was_told_first(story: Story, bad: bool) -> None:
    _forgets(story, 2)
    story.judge.remembers(ONE, z(1, 2 if bad else 3))


@breaks(ReadmittedBySomethingNewer)
def let_in_by_nobody(story: Story, bad: bool) -> None:
    _forgets(story, 2)
    if bad:
        story.judge.role(ONE, State.LOOKING, Epoch(0), None, False)
    story.judge.remembers(ONE, z(1, 3))


@breaks(ReadmittedBySomethingNewer)
def let_in_by_what_another_leader_told(story: Story, bad: bool) -> None:
    _forgets(story, 2)
    story.judge.role(ONE, State.FOLLOWING, Epoch(0), TWO, False)
    story.judge.said[NewLeader](TWO, ONE, NewLeader(Epoch(2), evolve(ENSEMBLE, version=z(1, 3))))
    story.judge.remembers(ONE, z(1, 3 if bad else 4))


@breaks(ReadmittedBySomethingNewer)
def who_has_forgotten_nothing_is_let_in_by_nothing(story: Story, bad: bool) -> None:
    _forgets(story, 2)
    if not bad:
        story.judge.started(ONE, Recovered(Epoch(1), Epoch(1)), NOTHING)
    story.judge.remembers(ONE, z(1, 1))


@breaks(ReadmittedBySomethingNewer)
def who_was_let_in_stays(story: Story, bad: bool) -> None:
    _forgets(story, 2)
    story.judge.remembers(ONE, z(1, 2 if bad else 3))
    story.judge.remembers(ONE, z(1, 2))


def _under_way(story: Story, *having: ServerId) -> Batch:
    """Server 3 has proposed the same members anew when server 1, which forgot, is brought up to date."""
    story.begins()
    story.judge.disk_lost(ONE)
    story.judge.started(ONE, Recovered(Epoch(0), Epoch(0), voting=False, forgotten=True), NOTHING)
    change = _proposed(story, 2, THREE, *having)
    _healed(story)
    return change


def _proposed(story: Story, counter: int, *having: ServerId) -> Batch:
    change = pack(z(1, counter), [evolve(ENSEMBLE, version=z(1, counter)).text().encode()], config=True)
    story.judge.proposed(THREE, change.first, change.payloads())
    story.logs(change, *having)
    story.judge.broadcasts(THREE, Epoch(1))
    return change


def _healed(story: Story) -> None:
    story.judge.role(ONE, State.FOLLOWING, Epoch(0), THREE, False)
    story.judge.said[NewLeader](THREE, ONE, NewLeader(Epoch(1), ENSEMBLE))


@breaks(ReadmittedBySomethingNewer)
def let_in_by_what_was_under_way(story: Story, bad: bool) -> None:
    change = _under_way(story)
    if not bad:
        change = _proposed(story, 3, THREE)
    story.judge.remembers(ONE, change.last)


@breaks(ReadmittedBySomethingNewer)
def let_in_by_what_was_proposed_in_the_same_step(story: Story, bad: bool) -> None:
    """Nobody knows whether that was before or after it was brought up to date."""
    story.begins()
    story.judge.started(ONE, Recovered(Epoch(0), Epoch(0), voting=False, forgotten=True), NOTHING)
    change = pack(z(1, 2), [evolve(ENSEMBLE, version=z(1, 2)).text().encode()], config=True)
    story.logs(change, THREE)
    if bad:
        story.judge.broadcasts(THREE, Epoch(1))
    _healed(story)
    story.judge.broadcasts(THREE, Epoch(1))
    story.judge.remembers(ONE, change.last)


@breaks(ReadmittedBySomethingNewer)
def proposed_in_the_same_step_behind_one_that_was_not(story: Story, bad: bool) -> None:
    _under_way(story)
    change = pack(z(1, 3), [evolve(ENSEMBLE, version=z(1, 3)).text().encode()], config=True)
    story.logs(change, THREE)
    _healed(story)
    story.judge.remembers(ONE, z(1, 2) if bad else change.last)


@breaks(ReadmittedBySomethingNewer)
def counted_by_what_was_under_way(story: Story, bad: bool) -> None:
    change = _under_way(story, ONE, TWO)
    story.commits(THREE, change.last)
    more = story.proposes(THREE, 1, 3)
    story.logs(more, THREE, ONE, *(() if bad else (TWO,)))
    story.commits(THREE, more.last)


@breaks(ReadmittedBySomethingNewer)
def counted_for_what_lets_it_in(story: Story, bad: bool) -> None:
    """What is decided with it is counted by the members that are in force there, and so is it."""
    _under_way(story, ONE, TWO)
    again = _proposed(story, 3, THREE, ONE, *(() if bad else (TWO,)))
    more = story.proposes(THREE, 1, 4)
    story.logs(more, THREE, ONE)
    story.commits(THREE, more.last)
    assert again.last < more.last


@breaks(ReadmittedBySomethingNewer)
def counted_by_who_has_not_brought_it_up_to_date(story: Story, bad: bool) -> None:
    _under_way(story, ONE, TWO)
    again = _proposed(story, 3, THREE, TWO)
    story.commits(THREE, again.last)
    if bad:
        story.leads(TWO, 2)
    more = story.proposes(TWO if bad else THREE, 2, 1)
    story.logs(more, TWO if bad else THREE, ONE)
    story.commits(TWO if bad else THREE, more.last)


@breaks(ReadmittedBySomethingNewer)
def acknowledged_before_it_forgot(story: Story, bad: bool) -> None:
    story.begins()
    more = story.proposes(THREE, 1, 2)
    story.logs(more, THREE, ONE)
    if not bad:
        story.judge.disk_lost(ONE)
    story.judge.started(ONE, Recovered(Epoch(0), Epoch(0), batches=(), forgotten=True), more.last)
    story.commits(THREE, more.last)


@breaks(ReadmittedBySomethingNewer)
def nobody_has_forgotten_anything(story: Story, bad: bool) -> None:
    """Then it is not for this promise to say that too few have it."""
    story.begins()
    if bad:
        story.judge.started(ONE, Recovered(Epoch(0), Epoch(0), forgotten=True), NOTHING)
    more = story.proposes(THREE, 1, 2)
    story.logs(more, THREE)
    story.commits(THREE, more.last)


@breaks(ReadmittedBySomethingNewer)
def who_was_let_in_counts(story: Story, bad: bool) -> None:
    _under_way(story, ONE, TWO)
    again = _proposed(story, 3, THREE, TWO)
    story.commits(THREE, again.last)
    if not bad:
        story.judge.remembers(ONE, again.last)
    story.leads(TWO, 2)
    more = story.proposes(TWO, 2, 1)
    story.logs(more, TWO, ONE)
    story.commits(TWO, more.last)


@breaks(ReadmittedBySomethingNewer)
def what_is_committed_already_needs_nobody(story: Story, bad: bool) -> None:
    """A leader of the next epoch says it again, when two have forgotten what they promised."""
    first = story.begins()
    for sid in (ONE, TWO):
        story.judge.started(sid, Recovered(Epoch(0), Epoch(0), forgotten=True), NOTHING)
    more = story.proposes(THREE, 1, 2)
    story.logs(more, THREE)
    story.commits(THREE, more.last if bad else first.last)


def _members(version: Zxid) -> Ensemble:
    """Server 4 votes, too."""
    return ENSEMBLE.changed([member(FOUR)], version=version)


@breaks(ActivatedIsDecided)
def a_change_that_was_cut_off_goes_into_force(story: Story, bad: bool) -> None:
    first = story.begins()
    members = _members(z(1, 2))
    change = pack(z(1, 2), [members.text().encode()], config=True)
    story.logs(change, THREE)
    story.epochs(2, ONE, TWO)
    story.leads(TWO, 2)
    if bad:
        story.judge.truncated(THREE, first.last)
        story.judge.durable_end(THREE, first.last)
    else:
        story.logs(change, TWO)
        story.commits(TWO, change.last)
    more = story.proposes(TWO, 2, 1)
    story.logs(more, TWO, THREE)
    story.commits(TWO, more.last)
    story.judge.activated(THREE, members)


@breaks(ActivatedIsDecided)
def a_decided_change_goes_into_force_with_other_members(story: Story, bad: bool) -> None:
    change = _decides(story)
    members = _members(change.last)
    story.judge.activated(ONE, members.changed(leaving=(TWO,), version=change.last) if bad else members)


@breaks(ActivatedIsDecided)
def a_server_that_serves_has_not_logged_what_it_puts_in_force(story: Story, bad: bool) -> None:
    """A server that looks for a leader may learn it from others."""
    change = _decides(story)
    story.judge.role(FOUR, State.OBSERVING, Epoch(1), THREE, bad)
    story.judge.activated(FOUR, _members(change.last))


@breaks(ActivatedIsDecided)
def a_history_without_the_change_that_is_older_than_its_end(story: Story, bad: bool) -> None:
    """The disk of a server that lost something says nothing of the server."""
    change = _decides(story)
    story.logs(batch(2, 1), FOUR)
    if not bad:
        story.judge.disk_lost(FOUR)
    story.judge.activated(FOUR, _members(change.last))


@breaks(ActivatedIsDecided)
def the_first_members_again_behind_a_change(story: Story, bad: bool) -> None:
    """The members are the same as before the change, but a version of theirs was decided."""
    same = evolve(ENSEMBLE, version=z(1, 2))
    change = pack(z(1, 2), [same.text().encode()], config=True)
    story.begins()
    story.logs(change, ONE, TWO, THREE)
    story.commits(THREE, change.last)
    story.judge.activated(ONE, evolve(ENSEMBLE, version=z(1, 0)))
    story.epochs(2, ONE, TWO)
    story.leads(TWO, 2)
    story.judge.activated(TWO, evolve(ENSEMBLE, version=z(2, 0)) if bad else same)


@breaks(ActivatedIsDecided)
def the_first_members_are_others(story: Story, bad: bool) -> None:
    story.begins()
    story.judge.activated(ONE, evolve(_members(z(1, 0)) if bad else ENSEMBLE, version=z(1, 0)))
