"""Steps that the specification does not allow, each beside one that it does."""

from __future__ import annotations

from harness.checkers.refinement import Refinement
from harness.checkers.specification import Action
from harness.members import member
from tests.histories.zab.story import ENSEMBLE, FOUR, ONE, THREE, TWO, Story, batch, breaks, refused, z
from zab.core.batch import pack
from zab.core.messages import AckEpoch, AckNewLeader, LeaderInfo, NewLeader, State, UpToDate
from zab.core.ready import Recovered
from zab.core.zxid import NOTHING, UNKNOWN, Epoch, ServerId


@breaks(Refinement)
def a_leader_that_nobody_promised_anything(story: Story, bad: bool) -> None:
    story.judge.durable_epochs(THREE, Epoch(1), Epoch(0))
    if not bad:
        story.judge.heard_leader_info(ONE, Epoch(1))
        story.judge.durable_epochs(ONE, Epoch(1), Epoch(0))
        story.judge.said[AckEpoch](ONE, THREE, AckEpoch(Epoch(0), NOTHING, 0))
    story.leads(THREE, 1)


# -- discovery -----------------------------------------------------------------------------------------


@refused(Action.PROMISE)
def a_promise_taken_back(story: Story, bad: bool) -> None:
    story.judge.durable_epochs(ONE, Epoch(2), Epoch(0))
    story.judge.durable_epochs(ONE, Epoch(1 if bad else 3), Epoch(0))


@refused(Action.ANNOUNCE)
def announced_before_it_is_durable(story: Story, bad: bool) -> None:
    story.judge.durable_epochs(THREE, Epoch(0 if bad else 1), Epoch(0))
    story.judge.said[LeaderInfo](THREE, ONE, LeaderInfo(Epoch(1)))


@refused(Action.TELL_PROMISE)
def told_before_it_is_durable(story: Story, bad: bool) -> None:
    story.judge.heard_leader_info(ONE, Epoch(1))
    if not bad:
        story.judge.durable_epochs(ONE, Epoch(1), Epoch(0))
    story.judge.said[AckEpoch](ONE, THREE, AckEpoch(Epoch(0), NOTHING, 0))


@refused(Action.TELL_PROMISE)
def a_promise_to_two(story: Story, bad: bool) -> None:
    story.seeks(TWO, 1)
    story.seeks(THREE, 1)
    story.promises(ONE, THREE, 1)
    story.judge.said[LeaderInfo](TWO, ONE, LeaderInfo(Epoch(1)))
    story.judge.said[AckEpoch](ONE, TWO if bad else THREE, AckEpoch(Epoch(0), NOTHING, 0, counts=bad))


@refused(Action.TELL_PROMISE)
def a_history_that_is_not_its_own(story: Story, bad: bool) -> None:
    story.seeks(THREE, 1)
    story.promises(ONE, THREE, 1, last=z(1, 7) if bad else NOTHING)


@refused(Action.TELL_PROMISE)
def an_epoch_that_is_not_that_of_its_history(story: Story, bad: bool) -> None:
    story.reigns()
    story.logs(batch(1, 1), THREE, ONE)
    story.seeks(TWO, 2)
    story.judge.heard_leader_info(ONE, Epoch(2))
    story.judge.durable_epochs(ONE, Epoch(2), Epoch(1))
    story.judge.said[AckEpoch](ONE, TWO, AckEpoch(Epoch(0 if bad else 1), z(1, 1), 0))


@refused(Action.ESTABLISH)
def established_by_a_minority(story: Story, bad: bool) -> None:
    story.seeks(THREE, 1)
    if not bad:
        story.promises(ONE, THREE, 1)
    story.establishes(THREE, 1)


@refused(Action.ESTABLISH)
def established_by_promises_that_do_not_count(story: Story, bad: bool) -> None:
    story.seeks(THREE, 1)
    story.promises(ONE, THREE, 1, counts=not bad)
    story.establishes(THREE, 1)


@refused(Action.ESTABLISH)
def established_where_another_one_is(story: Story, bad: bool) -> None:
    story.seeks(THREE, 1)
    story.promises(ONE, THREE, 1)
    story.establishes(THREE, 1)
    story.seeks(TWO, 1 if bad else 2)
    if not bad:
        story.promises(ONE, TWO, 2)
    story.establishes(TWO, 1 if bad else 2)


@refused(Action.ESTABLISH)
def established_in_an_epoch_that_it_has_not_promised(story: Story, bad: bool) -> None:
    story.seeks(THREE, 1 if bad else 2)
    story.judge.heard_leader_info(ONE, Epoch(2))
    story.judge.durable_epochs(ONE, Epoch(2), Epoch(0))
    story.judge.said[AckEpoch](ONE, THREE, AckEpoch(Epoch(0), NOTHING, 0))
    story.establishes(THREE, 2)


@refused(Action.ESTABLISH)
def established_over_a_newer_history(story: Story, bad: bool) -> None:
    story.reigns()
    story.logs(batch(1, 1), THREE, *((ONE,) if bad else ()))
    story.seeks(TWO, 2)
    story.promises(ONE, TWO, 2)
    story.establishes(TWO, 2)


@refused(Action.ESTABLISH)
def established_over_a_damaged_history(story: Story, bad: bool) -> None:
    story.seeks(THREE, 1)
    story.promises(ONE, THREE, 1, last=UNKNOWN)
    if not bad:
        story.promises(TWO, THREE, 1)
    story.establishes(THREE, 1)


@refused(Action.ESTABLISH)
def established_in_the_turn_in_which_it_gives_up(story: Story, bad: bool) -> None:
    story.seeks(THREE, 1)
    if not bad:
        story.promises(ONE, THREE, 1)
    story.judge.role(THREE, State.LOOKING, Epoch(1), None, False)
    story.adopts(THREE, THREE, 1)


# -- synchronization -----------------------------------------------------------------------------------


@refused(Action.IMPOSE)
def imposed_by_another_one(story: Story, bad: bool) -> None:
    story.reigns()
    story.judge.said[NewLeader](TWO if bad else THREE, ONE, NewLeader(Epoch(1), story.ghost.initial_ensemble))


@refused(Action.ADOPT)
def adopted_before_there_is_a_leader(story: Story, bad: bool) -> None:
    story.seeks(THREE, 1)
    story.promises(ONE, THREE, 1)
    if not bad:
        story.establishes(THREE, 1)
    story.judge.durable_epochs(ONE, Epoch(1), Epoch(1))


@refused(Action.ADOPT)
def adopted_without_the_history(story: Story, bad: bool) -> None:
    story.reigns()
    story.logs(batch(1, 1), THREE, ONE)
    story.seeks(THREE, 2)
    story.promises(ONE, THREE, 2)
    story.promises(TWO, THREE, 2)
    story.establishes(THREE, 2)
    story.logs(batch(1, 1), TWO, durably=not bad)
    story.adopts(TWO, THREE, 2)


@refused(Action.TELL_ADOPTED)
def adopted_it_is_told_to_another_one(story: Story, bad: bool) -> None:
    story.reigns()
    story.judge.said[AckNewLeader](ONE, TWO if bad else THREE, AckNewLeader(Epoch(1)))


@refused(Action.TELL_ADOPTED)
def told_to_be_adopted_before_it_is(story: Story, bad: bool) -> None:
    story.seeks(THREE, 1)
    story.promises(ONE, THREE, 1)
    story.establishes(THREE, 1)
    if not bad:
        story.judge.durable_epochs(ONE, Epoch(1), Epoch(1))
    story.judge.said[AckNewLeader](ONE, THREE, AckNewLeader(Epoch(1)))


@refused(Action.TELL_ADOPTED)
def told_to_be_adopted_by_who_has_lost_the_history(story: Story, bad: bool) -> None:
    story.reigns()
    story.logs(batch(1, 1), THREE, ONE)
    story.reigns(THREE, 2, ONE)
    if bad:
        story.judge.durable_end(ONE, NOTHING)
    story.judge.said[AckNewLeader](ONE, THREE, AckNewLeader(Epoch(2)))


@refused(Action.ACCEPT)
def logged_what_the_leader_has_not(story: Story, bad: bool) -> None:
    story.reigns()
    story.logs(batch(1, 1), *((ONE,) if bad else (THREE, ONE)))


@refused(Action.ACCEPT)
def logged_more_than_the_leader_has(story: Story, bad: bool) -> None:
    story.reigns()
    story.logs(batch(1, 1), THREE, ONE)
    if not bad:
        story.logs(batch(1, 2), THREE)
    story.logs(batch(1, 2), ONE)


@refused(Action.ACCEPT)
def logged_in_another_place(story: Story, bad: bool) -> None:
    story.reigns()
    story.logs(batch(1, 1), THREE, *(() if bad else (ONE,)))
    story.logs(batch(1, 2), THREE, ONE)


@refused(Action.ACCEPT)
def logged_from_nobody(story: Story, bad: bool) -> None:
    story.reigns()
    story.logs(batch(1, 1), THREE)
    story.judge.heard_leader_info(ONE, Epoch(2 if bad else 1))
    story.logs(batch(1, 1), ONE)


@refused(Action.CUT)
def cut_what_the_leader_has(story: Story, bad: bool) -> None:
    story.reigns()
    story.logs(batch(1, 1), THREE, ONE)
    story.judge.truncated(ONE, NOTHING if bad else z(1, 1))


def _a_phantom(story: Story) -> None:
    """Server 3 has two transactions that nobody else has, and server 2 leads without them."""
    story.reigns()
    story.logs(batch(1, 1), THREE, ONE, TWO)
    story.logs(batch(1, 2), THREE)
    story.logs(batch(1, 3), THREE)
    story.reigns(TWO, 2, ONE)
    story.promises(THREE, TWO, 2)


@refused(Action.CUT)
def cut_more_than_the_leader_has_not(story: Story, bad: bool) -> None:
    _a_phantom(story)
    story.judge.truncated(THREE, NOTHING if bad else z(1, 1))


@refused(Action.CUT)
def cut_where_the_leader_has_nothing(story: Story, bad: bool) -> None:
    _a_phantom(story)
    story.judge.truncated(THREE, z(1, 2) if bad else z(1, 1))


@refused(Action.CUT)
def cut_where_it_has_nothing_itself(story: Story, bad: bool) -> None:
    _a_phantom(story)
    story.logs(batch(2, 1), TWO)
    story.judge.truncated(THREE, z(2, 1) if bad else z(1, 1))


@refused(Action.CUT)
def cut_for_nobody(story: Story, bad: bool) -> None:
    _a_phantom(story)
    story.judge.heard_leader_info(THREE, Epoch(3 if bad else 2))
    story.judge.truncated(THREE, z(1, 1))


@refused(Action.REPLACE)
def replaced_by_what_is_not_committed(story: Story, bad: bool) -> None:
    story.reigns()
    story.logs(batch(1, 1), THREE, *(() if bad else (TWO,)))
    if not bad:
        story.acks(TWO, THREE, z(1, 1))
        story.commits(THREE, z(1, 1))
    story.judge.installed(ONE, z(1, 1))


@refused(Action.REPLACE)
def replaced_by_what_the_leader_has_not(story: Story, bad: bool) -> None:
    story.reigns()
    story.logs(batch(1, 1), THREE, TWO, ONE)
    story.acks(TWO, THREE, z(1, 1))
    story.commits(THREE, z(1, 1))
    story.judge.installed(ONE, z(1, 2) if bad else z(1, 1))


@refused(Action.REPLACE)
def replaced_for_nobody(story: Story, bad: bool) -> None:
    story.reigns()
    story.logs(batch(1, 1), THREE, TWO)
    story.acks(TWO, THREE, z(1, 1))
    story.commits(THREE, z(1, 1))
    story.judge.heard_leader_info(ONE, Epoch(2 if bad else 1))
    story.judge.installed(ONE, z(1, 1))


@refused(Action.LET_SERVE)
def let_serve_that_has_not_adopted(story: Story, bad: bool) -> None:
    story.reigns(THREE, 1, *((ONE,) if bad else (ONE, TWO)))
    story.lets_serve(THREE, TWO, NOTHING)


@refused(Action.LET_SERVE)
def let_serve_with_what_is_not_committed(story: Story, bad: bool) -> None:
    story.reigns()
    story.logs(batch(1, 1), THREE)
    story.lets_serve(THREE, ONE, z(1, 1) if bad else NOTHING)


@refused(Action.LET_SERVE)
def let_serve_with_less_than_the_epoch_began_with(story: Story, bad: bool) -> None:
    story.reigns()
    story.logs(batch(1, 1), THREE, ONE, TWO)
    story.acks(TWO, THREE, z(1, 1))
    story.commits(THREE, z(1, 1))
    story.reigns(TWO, 2, ONE)
    story.lets_serve(TWO, ONE, NOTHING if bad else z(1, 1))


@refused(Action.LET_SERVE)
def let_serve_by_another_one(story: Story, bad: bool) -> None:
    story.reigns()
    story.judge.role(TWO, State.LEADING, Epoch(1), TWO, False)
    story.judge.said[UpToDate](TWO if bad else THREE, ONE, UpToDate(NOTHING))


# -- broadcast -----------------------------------------------------------------------------------------


@refused(Action.PROPOSE)
def proposed_before_a_quorum_adopted(story: Story, bad: bool) -> None:
    story.seeks(THREE, 1)
    story.promises(ONE, THREE, 1)
    story.establishes(THREE, 1)
    story.adopts(THREE, THREE, 1)
    if not bad:
        story.adopts(ONE, THREE, 1)
    story.logs(batch(1, 1), THREE)


@refused(Action.PROPOSE)
def proposed_by_who_has_not_adopted_it_itself(story: Story, bad: bool) -> None:
    story.seeks(THREE, 1)
    story.promises(ONE, THREE, 1)
    story.establishes(THREE, 1)
    story.adopts(ONE, THREE, 1)
    if not bad:
        story.adopts(THREE, THREE, 1)
    story.logs(batch(1, 1), THREE)


@refused(Action.PROPOSE)
def proposed_with_a_gap(story: Story, bad: bool) -> None:
    story.reigns()
    story.logs(batch(1, 1), THREE)
    story.logs(batch(1, 3 if bad else 2), THREE)


@refused(Action.PROPOSE)
def proposed_in_an_epoch_that_another_one_leads(story: Story, bad: bool) -> None:
    story.reigns()
    story.judge.role(TWO, State.LEADING, Epoch(1), TWO, False)
    story.logs(batch(1, 1), TWO if bad else THREE)


@refused(Action.PROPOSE)
def proposed_behind_less_than_it_had(story: Story, bad: bool) -> None:
    story.reigns()
    story.logs(batch(1, 1, b"a", b"b"), THREE)
    if bad:
        story.ghost.servers[THREE].tip = z(1, 1)
    story.logs(batch(1, 2 if bad else 3), THREE)


@refused(Action.ACKNOWLEDGE)
def acknowledged_from_memory(story: Story, bad: bool) -> None:
    story.reigns()
    story.logs(batch(1, 1), THREE)
    story.logs(batch(1, 1), ONE, durably=not bad)
    story.acks(ONE, THREE, z(1, 1))


@refused(Action.ACKNOWLEDGE)
def acknowledged_to_another_one(story: Story, bad: bool) -> None:
    story.reigns()
    story.logs(batch(1, 1), THREE, ONE)
    story.acks(ONE, TWO if bad else THREE, z(1, 1))


@refused(Action.ACKNOWLEDGE)
def acknowledged_by_who_has_not_adopted_the_epoch(story: Story, bad: bool) -> None:
    story.reigns(THREE, 1, ONE)
    story.promises(TWO, THREE, 1)
    story.logs(batch(1, 1), THREE, TWO)
    if not bad:
        story.adopts(TWO, THREE, 1)
    story.acks(TWO, THREE, z(1, 1))


@refused(Action.ACKNOWLEDGE)
def acknowledged_what_the_leader_has_not(story: Story, bad: bool) -> None:
    _a_phantom(story)
    story.adopts(THREE, TWO, 2)
    story.acks(THREE, TWO, z(1, 3) if bad else z(1, 1))


@refused(Action.COMMIT)
def committed_though_nobody_said_to_have_it(story: Story, bad: bool) -> None:
    """All disks have it: no promise is broken yet. But the leader cannot know that."""
    story.reigns()
    story.logs(batch(1, 1), THREE, ONE, TWO)
    if not bad:
        story.acks(ONE, THREE, z(1, 1))
    story.commits(THREE, z(1, 1))


@refused(Action.COMMIT)
def committed_by_two_who_are_no_quorum(story: Story, bad: bool) -> None:
    story.reigns()
    story.promises(FOUR, THREE, 1)
    story.adopts(FOUR, THREE, 1)
    helper = FOUR if bad else ONE
    story.logs(batch(1, 1), THREE, helper)
    story.acks(helper, THREE, z(1, 1))
    story.commits(THREE, z(1, 1))


@refused(Action.COMMIT)
def committed_before_it_is_on_its_own_disk(story: Story, bad: bool) -> None:
    story.reigns()
    story.logs(batch(1, 1), THREE, durably=not bad)
    story.logs(batch(1, 1), ONE)
    story.acks(ONE, THREE, z(1, 1))
    story.commits(THREE, z(1, 1))


@refused(Action.COMMIT)
def committed_of_an_earlier_epoch(story: Story, bad: bool) -> None:
    """What is older than the last of its initial history is committed with that, and not by itself."""
    story.reigns()
    for number in (1, 2):
        story.logs(batch(1, number), THREE, ONE, TWO)
    story.seeks(TWO, 2)
    story.promises(ONE, TWO, 2)
    story.establishes(TWO, 2)
    for sid in (TWO, ONE):
        story.adopts(sid, TWO, 2)
    story.commits(TWO, z(1, 1 if bad else 2))


@refused(Action.LEARN)
def learned_what_nobody_committed(story: Story, bad: bool) -> None:
    story.reigns()
    story.logs(batch(1, 1), THREE, ONE, TWO)
    story.acks(ONE, THREE, z(1, 1))
    if not bad:
        story.commits(THREE, z(1, 1))
    story.judge.committed(ONE, z(1, 1), False)


@refused(Action.LEARN)
def learned_what_it_has_not(story: Story, bad: bool) -> None:
    story.reigns()
    story.logs(batch(1, 1), THREE, ONE, *(() if bad else (TWO,)))
    story.acks(ONE, THREE, z(1, 1))
    story.commits(THREE, z(1, 1))
    story.judge.committed(TWO, z(1, 1), False)


@refused(Action.DELIVER)
def delivered_before_it_is_known_to_be_committed(story: Story, bad: bool) -> None:
    story.reigns()
    story.logs(batch(1, 1), THREE, ONE, TWO)
    story.acks(ONE, THREE, z(1, 1))
    story.commits(THREE, z(1, 1))
    if not bad:
        story.judge.committed(TWO, z(1, 1), False)
    story.applies(batch(1, 1), TWO)


@refused(Action.DELIVER)
def delivered_with_a_gap(story: Story, bad: bool) -> None:
    story.reigns()
    for number in (1, 2):
        story.logs(batch(1, number), THREE, ONE, TWO)
    story.acks(ONE, THREE, z(1, 2))
    story.commits(THREE, z(1, 2))
    story.judge.committed(ONE, z(1, 2), False)
    if not bad:
        story.applies(batch(1, 1), ONE)
    story.applies(batch(1, 2), ONE)


@refused(Action.SERVE)
def served_without_leave(story: Story, bad: bool) -> None:
    story.seeks(THREE, 1)
    story.promises(ONE, THREE, 1)
    story.establishes(THREE, 1)
    story.adopts(THREE, THREE, 1)
    story.adopts(ONE, THREE, 1)
    if not bad:
        story.lets_serve(THREE, ONE, NOTHING)
    story.judge.serves(ONE)


@refused(Action.SERVE)
def served_before_it_has_what_it_was_told(story: Story, bad: bool) -> None:
    story.reigns()
    story.logs(batch(1, 1), THREE, ONE, TWO)
    story.acks(ONE, THREE, z(1, 1))
    story.commits(THREE, z(1, 1))
    story.lets_serve(THREE, ONE, z(1, 1))
    story.judge.committed(ONE, z(1, 1), False)
    if not bad:
        story.applies(batch(1, 1), ONE)
    story.judge.serves(ONE)


@refused(Action.SERVE)
def led_before_it_has_what_it_began_with(story: Story, bad: bool) -> None:
    story.reigns()
    story.logs(batch(1, 1), THREE, ONE, TWO)
    story.reigns(TWO, 2, ONE)
    story.commits(TWO, z(1, 1))
    if not bad:
        story.applies(batch(1, 1), TWO)
    story.judge.serves(TWO)


# -- what the environment takes away, and what changes ---------------------------------------------------


def _promises_to(story: Story, leader: ServerId) -> None:
    """Server 1, in epoch 1."""
    story.judge.heard_leader_info(ONE, Epoch(1))
    story.judge.said[AckEpoch](ONE, leader, AckEpoch(Epoch(0), NOTHING, 0))


@refused(Action.TELL_PROMISE)
def a_promise_forgotten_with_a_disk_that_went_back(story: Story, bad: bool) -> None:
    story.judge.durable_epochs(ONE, Epoch(1), Epoch(0))
    _promises_to(story, THREE)
    if not bad:
        story.judge.disk_went_back(ONE)
    story.judge.crashed(ONE)
    story.restarts(ONE, 0)
    story.judge.durable_epochs(ONE, Epoch(1), Epoch(0))
    _promises_to(story, TWO)


@refused(Action.TELL_PROMISE)
def a_promise_forgotten_with_a_disk_that_was_lost(story: Story, bad: bool) -> None:
    story.judge.durable_epochs(ONE, Epoch(1), Epoch(0))
    _promises_to(story, THREE)
    if not bad:
        story.judge.disk_lost(ONE)
    story.judge.crashed(ONE)
    story.restarts(ONE, 0, voting=False)
    story.judge.durable_epochs(ONE, Epoch(1), Epoch(0))
    _promises_to(story, TWO)


@refused(Action.TELL_PROMISE)
def who_is_not_healed_may_promise_again(story: Story, bad: bool) -> None:
    story.judge.disk_lost(ONE)
    story.judge.durable_epochs(ONE, Epoch(1), Epoch(0), trusted=bad)
    _promises_to(story, THREE)
    _promises_to(story, TWO)


@refused(Action.DELIVER)
def what_was_known_before_a_restart_is_not_known_any_more(story: Story, bad: bool) -> None:
    story.reigns()
    story.logs(batch(1, 1), THREE, ONE, TWO)
    story.acks(ONE, THREE, z(1, 1))
    story.commits(THREE, z(1, 1))
    story.judge.committed(ONE, z(1, 1), False)
    story.judge.crashed(ONE)
    story.restarts(ONE, 1, batch(1, 1))
    if not bad:
        story.judge.committed(ONE, z(1, 1), False)
    story.applies(batch(1, 1), ONE)


@refused(Action.DELIVER)
def what_a_snapshot_holds_was_committed(story: Story, bad: bool) -> None:
    story.reigns()
    story.logs(batch(1, 1), THREE, ONE, TWO)
    story.acks(ONE, THREE, z(1, 1))
    story.commits(THREE, z(1, 1))
    story.judge.crashed(ONE)
    snapshot = NOTHING if bad else z(1, 1)
    story.judge.started(ONE, Recovered(Epoch(1), Epoch(1), snapshot=snapshot), z(1, 1))
    story.applies(batch(1, 1), ONE)


@refused(Action.ESTABLISH)
def established_by_those_who_vote_by_now(story: Story, bad: bool) -> None:
    """Servers 3 and 4, once 1 and 2 have left."""
    story.reigns()
    changed = ENSEMBLE.changed(leaving=(ONE, TWO), joining=(member(FOUR),), version=z(1, 1))
    change = pack(z(1, 1), [changed.text().encode()], config=not bad)
    story.logs(change, THREE, ONE)
    story.seeks(THREE, 2)
    story.promises(FOUR, THREE, 2)
    story.establishes(THREE, 2)


@refused(Action.ACCEPT)
def a_leader_logs_of_an_earlier_epoch(story: Story, bad: bool) -> None:
    """Who proposes does so in its own epoch; the rest is what others have proposed."""
    story.reigns()
    story.logs(batch(1, 1), THREE)
    story.judge.role(ONE, State.LEADING, Epoch(3), ONE, False)
    if bad:
        story.judge.heard_leader_info(ONE, Epoch(2))
    story.logs(batch(1, 1), ONE)


@refused(Action.ACCEPT)
def logged_on_another_branch(story: Story, bad: bool) -> None:
    """What another one of that past has, but not the leader."""
    _a_phantom(story)
    story.logs(batch(2, 1), TWO)
    story.logs(batch(1, 2) if bad else batch(2, 1), ONE)


@refused(Action.COMMIT)
def committed_with_who_joined_later(story: Story, bad: bool) -> None:
    """Server 2 had it already when it said that it has adopted the epoch."""
    story.reigns(THREE, 1, ONE)
    story.logs(batch(1, 1), THREE)
    story.promises(TWO, THREE, 1)
    story.logs(batch(1, 1), TWO, durably=not bad)
    story.adopts(TWO, THREE, 1)
    story.commits(THREE, z(1, 1))


@refused(Action.COMMIT)
def committed_before_a_quorum_adopted(story: Story, bad: bool) -> None:
    story.reigns()
    story.logs(batch(1, 1), THREE, ONE, TWO)
    story.seeks(TWO, 2)
    story.promises(ONE, TWO, 2)
    story.establishes(TWO, 2)
    story.adopts(ONE, TWO, 2)
    if not bad:
        story.adopts(TWO, TWO, 2)
    story.commits(TWO, z(1, 1))


@refused(Action.COMMIT)
def committed_beyond_what_it_has(story: Story, bad: bool) -> None:
    """Server 1 finds on its disk what its leader has never proposed."""
    story.reigns()
    story.logs(batch(1, 1), THREE, ONE, TWO)
    story.acks(TWO, THREE, z(1, 1))
    story.restarts(ONE, 1, batch(1, 1), batch(1, 2))
    story.commits(THREE, z(1, 2) if bad else z(1, 1))


@refused(Action.DELIVER)
def a_leader_delivers_what_it_has_committed(story: Story, bad: bool) -> None:
    story.reigns()
    story.logs(batch(1, 1), THREE, ONE, TWO)
    story.acks(ONE, THREE, z(1, 1))
    if not bad:
        story.commits(THREE, z(1, 1))
    story.applies(batch(1, 1), THREE)


@refused(Action.SERVE)
def led_before_a_quorum_adopted(story: Story, bad: bool) -> None:
    story.seeks(THREE, 1)
    story.promises(ONE, THREE, 1)
    story.establishes(THREE, 1)
    story.adopts(THREE, THREE, 1)
    if not bad:
        story.adopts(ONE, THREE, 1)
    story.judge.serves(THREE)
