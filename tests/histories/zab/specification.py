"""Steps that the specification forbids, each next to an allowed one."""

from __future__ import annotations

from harness.checkers.refinement import Refinement
from harness.checkers.specification import Action
from harness.members import member
from tests.histories.zab.scenario import ENSEMBLE, FOUR, ONE, THREE, TWO, Scenario, batch, breaks, refused, z
from zab.core.batch import pack
from zab.core.messages import AckEpoch, AckNewLeader, LeaderInfo, NewLeader, State, UpToDate
from zab.core.ready import Recovered
from zab.core.zxid import NOTHING, UNKNOWN, Epoch, ServerId


@breaks(Refinement)
def leader_without_promises(s: Scenario, bad: bool) -> None:
    s.judge.durable_epochs(THREE, Epoch(1), Epoch(0))
    if not bad:
        s.judge.heard_leader_info(ONE, Epoch(1))
        s.judge.durable_epochs(ONE, Epoch(1), Epoch(0))
        s.judge.said[AckEpoch](ONE, THREE, AckEpoch(Epoch(0), NOTHING, 0))
    s.leads(THREE, 1)


# -- discovery -----------------------------------------------------------------------------------------


@refused(Action.PROMISE)
def promise_taken_back(s: Scenario, bad: bool) -> None:
    s.judge.durable_epochs(ONE, Epoch(2), Epoch(0))
    s.judge.durable_epochs(ONE, Epoch(1 if bad else 3), Epoch(0))


@refused(Action.ANNOUNCE)
def announced_before_it_is_durable(s: Scenario, bad: bool) -> None:
    s.judge.durable_epochs(THREE, Epoch(0 if bad else 1), Epoch(0))
    s.judge.said[LeaderInfo](THREE, ONE, LeaderInfo(Epoch(1)))


@refused(Action.TELL_PROMISE)
def sent_before_it_is_durable(s: Scenario, bad: bool) -> None:
    s.judge.heard_leader_info(ONE, Epoch(1))
    if not bad:
        s.judge.durable_epochs(ONE, Epoch(1), Epoch(0))
    s.judge.said[AckEpoch](ONE, THREE, AckEpoch(Epoch(0), NOTHING, 0))


@refused(Action.TELL_PROMISE)
def promise_to_two(s: Scenario, bad: bool) -> None:
    s.seeks(TWO, 1)
    s.seeks(THREE, 1)
    s.promises(ONE, THREE, 1)
    s.judge.said[LeaderInfo](TWO, ONE, LeaderInfo(Epoch(1)))
    s.judge.said[AckEpoch](ONE, TWO if bad else THREE, AckEpoch(Epoch(0), NOTHING, 0, counts=bad))


@refused(Action.TELL_PROMISE)
def history_that_is_not_its_own(s: Scenario, bad: bool) -> None:
    s.seeks(THREE, 1)
    s.promises(ONE, THREE, 1, last=z(1, 7) if bad else NOTHING)


@refused(Action.TELL_PROMISE)
def epoch_that_is_not_that_of_its_history(s: Scenario, bad: bool) -> None:
    s.establishes_epoch()
    s.logs(batch(1, 1), THREE, ONE)
    s.seeks(TWO, 2)
    s.judge.heard_leader_info(ONE, Epoch(2))
    s.judge.durable_epochs(ONE, Epoch(2), Epoch(1))
    s.judge.said[AckEpoch](ONE, TWO, AckEpoch(Epoch(0 if bad else 1), z(1, 1), 0))


@refused(Action.ESTABLISH)
def established_by_a_minority(s: Scenario, bad: bool) -> None:
    s.seeks(THREE, 1)
    if not bad:
        s.promises(ONE, THREE, 1)
    s.establishes(THREE, 1)


@refused(Action.ESTABLISH)
def established_by_promises_that_do_not_count(s: Scenario, bad: bool) -> None:
    s.seeks(THREE, 1)
    s.promises(ONE, THREE, 1, counts=not bad)
    s.establishes(THREE, 1)


@refused(Action.ESTABLISH)
def established_in_an_epoch_with_a_leader(s: Scenario, bad: bool) -> None:
    s.seeks(THREE, 1)
    s.promises(ONE, THREE, 1)
    s.establishes(THREE, 1)
    s.seeks(TWO, 1 if bad else 2)
    if not bad:
        s.promises(ONE, TWO, 2)
    s.establishes(TWO, 1 if bad else 2)


@refused(Action.ESTABLISH)
def established_in_an_epoch_that_it_has_not_promised(s: Scenario, bad: bool) -> None:
    s.seeks(THREE, 1 if bad else 2)
    s.judge.heard_leader_info(ONE, Epoch(2))
    s.judge.durable_epochs(ONE, Epoch(2), Epoch(0))
    s.judge.said[AckEpoch](ONE, THREE, AckEpoch(Epoch(0), NOTHING, 0))
    s.establishes(THREE, 2)


@refused(Action.ESTABLISH)
def established_over_a_newer_history(s: Scenario, bad: bool) -> None:
    s.establishes_epoch()
    s.logs(batch(1, 1), THREE, *((ONE,) if bad else ()))
    s.seeks(TWO, 2)
    s.promises(ONE, TWO, 2)
    s.establishes(TWO, 2)


@refused(Action.ESTABLISH)
def established_over_a_damaged_history(s: Scenario, bad: bool) -> None:
    s.seeks(THREE, 1)
    s.promises(ONE, THREE, 1, last=UNKNOWN)
    if not bad:
        s.promises(TWO, THREE, 1)
    s.establishes(THREE, 1)


@refused(Action.ESTABLISH)
def established_in_the_step_in_which_it_gives_up(s: Scenario, bad: bool) -> None:
    s.seeks(THREE, 1)
    if not bad:
        s.promises(ONE, THREE, 1)
    s.judge.role(THREE, State.LOOKING, Epoch(1), None, False)
    s.adopts(THREE, THREE, 1)


# -- synchronization -----------------------------------------------------------------------------------


@refused(Action.IMPOSE)
def adopted_from_another_leader(s: Scenario, bad: bool) -> None:
    s.establishes_epoch()
    s.judge.said[NewLeader](TWO if bad else THREE, ONE, NewLeader(Epoch(1), s.ghost.initial_ensemble))


@refused(Action.ADOPT)
def adopted_before_there_is_a_leader(s: Scenario, bad: bool) -> None:
    s.seeks(THREE, 1)
    s.promises(ONE, THREE, 1)
    if not bad:
        s.establishes(THREE, 1)
    s.judge.durable_epochs(ONE, Epoch(1), Epoch(1))


@refused(Action.ADOPT)
def adopted_without_the_history(s: Scenario, bad: bool) -> None:
    s.establishes_epoch()
    s.logs(batch(1, 1), THREE, ONE)
    s.seeks(THREE, 2)
    s.promises(ONE, THREE, 2)
    s.promises(TWO, THREE, 2)
    s.establishes(THREE, 2)
    s.logs(batch(1, 1), TWO, durably=not bad)
    s.adopts(TWO, THREE, 2)


@refused(Action.TELL_ADOPTED)
def adoption_acknowledged_to_another_server(s: Scenario, bad: bool) -> None:
    s.establishes_epoch()
    s.judge.said[AckNewLeader](ONE, TWO if bad else THREE, AckNewLeader(Epoch(1)))


@refused(Action.TELL_ADOPTED)
def adoption_acknowledged_before_it_is_durable(s: Scenario, bad: bool) -> None:
    s.seeks(THREE, 1)
    s.promises(ONE, THREE, 1)
    s.establishes(THREE, 1)
    if not bad:
        s.judge.durable_epochs(ONE, Epoch(1), Epoch(1))
    s.judge.said[AckNewLeader](ONE, THREE, AckNewLeader(Epoch(1)))


@refused(Action.TELL_ADOPTED)
def adoption_acknowledged_without_the_history(s: Scenario, bad: bool) -> None:
    s.establishes_epoch()
    s.logs(batch(1, 1), THREE, ONE)
    s.establishes_epoch(THREE, 2, ONE)
    if bad:
        s.judge.durable_end(ONE, NOTHING)
    s.judge.said[AckNewLeader](ONE, THREE, AckNewLeader(Epoch(2)))


@refused(Action.ACCEPT)
def logged_a_transaction_that_the_leader_lacks(s: Scenario, bad: bool) -> None:
    s.establishes_epoch()
    s.logs(batch(1, 1), *((ONE,) if bad else (THREE, ONE)))


@refused(Action.ACCEPT)
def logged_more_than_the_leader_has(s: Scenario, bad: bool) -> None:
    s.establishes_epoch()
    s.logs(batch(1, 1), THREE, ONE)
    if not bad:
        s.logs(batch(1, 2), THREE)
    s.logs(batch(1, 2), ONE)


@refused(Action.ACCEPT)
def logged_in_another_place(s: Scenario, bad: bool) -> None:
    s.establishes_epoch()
    s.logs(batch(1, 1), THREE, *(() if bad else (ONE,)))
    s.logs(batch(1, 2), THREE, ONE)


@refused(Action.ACCEPT)
def logged_without_a_leader(s: Scenario, bad: bool) -> None:
    s.establishes_epoch()
    s.logs(batch(1, 1), THREE)
    s.judge.heard_leader_info(ONE, Epoch(2 if bad else 1))
    s.logs(batch(1, 1), ONE)


@refused(Action.CUT)
def truncated_a_transaction_that_the_leader_has(s: Scenario, bad: bool) -> None:
    s.establishes_epoch()
    s.logs(batch(1, 1), THREE, ONE)
    s.judge.truncated(ONE, NOTHING if bad else z(1, 1))


def _a_phantom(s: Scenario) -> None:
    """Server 3 has two transactions that no other server has, and server 2 leads without them."""
    s.establishes_epoch()
    s.logs(batch(1, 1), THREE, ONE, TWO)
    s.logs(batch(1, 2), THREE)
    s.logs(batch(1, 3), THREE)
    s.establishes_epoch(TWO, 2, ONE)
    s.promises(THREE, TWO, 2)


@refused(Action.CUT)
def truncated_more_than_the_leader_lacks(s: Scenario, bad: bool) -> None:
    _a_phantom(s)
    s.judge.truncated(THREE, NOTHING if bad else z(1, 1))


@refused(Action.CUT)
def truncated_where_the_leader_has_nothing(s: Scenario, bad: bool) -> None:
    _a_phantom(s)
    s.judge.truncated(THREE, z(1, 2) if bad else z(1, 1))


@refused(Action.CUT)
def truncated_where_it_has_nothing_itself(s: Scenario, bad: bool) -> None:
    _a_phantom(s)
    s.logs(batch(2, 1), TWO)
    s.judge.truncated(THREE, z(2, 1) if bad else z(1, 1))


@refused(Action.CUT)
def truncated_without_a_leader(s: Scenario, bad: bool) -> None:
    _a_phantom(s)
    s.judge.heard_leader_info(THREE, Epoch(3 if bad else 2))
    s.judge.truncated(THREE, z(1, 1))


@refused(Action.REPLACE)
def replaced_by_an_uncommitted_history(s: Scenario, bad: bool) -> None:
    s.establishes_epoch()
    s.logs(batch(1, 1), THREE, *(() if bad else (TWO,)))
    if not bad:
        s.acks(TWO, THREE, z(1, 1))
        s.commits(THREE, z(1, 1))
    s.judge.installed(ONE, z(1, 1))


@refused(Action.REPLACE)
def replaced_by_a_history_that_the_leader_lacks(s: Scenario, bad: bool) -> None:
    s.establishes_epoch()
    s.logs(batch(1, 1), THREE, TWO, ONE)
    s.acks(TWO, THREE, z(1, 1))
    s.commits(THREE, z(1, 1))
    s.judge.installed(ONE, z(1, 2) if bad else z(1, 1))


@refused(Action.REPLACE)
def replaced_without_a_leader(s: Scenario, bad: bool) -> None:
    s.establishes_epoch()
    s.logs(batch(1, 1), THREE, TWO)
    s.acks(TWO, THREE, z(1, 1))
    s.commits(THREE, z(1, 1))
    s.judge.heard_leader_info(ONE, Epoch(2 if bad else 1))
    s.judge.installed(ONE, z(1, 1))


@refused(Action.LET_SERVE)
def up_to_date_sent_to_a_server_that_has_not_adopted(s: Scenario, bad: bool) -> None:
    s.establishes_epoch(THREE, 1, *((ONE,) if bad else (ONE, TWO)))
    s.lets_serve(THREE, TWO, NOTHING)


@refused(Action.LET_SERVE)
def up_to_date_sent_with_an_uncommitted_history(s: Scenario, bad: bool) -> None:
    s.establishes_epoch()
    s.logs(batch(1, 1), THREE)
    s.lets_serve(THREE, ONE, z(1, 1) if bad else NOTHING)


@refused(Action.LET_SERVE)
def up_to_date_sent_with_less_than_the_initial_history(s: Scenario, bad: bool) -> None:
    s.establishes_epoch()
    s.logs(batch(1, 1), THREE, ONE, TWO)
    s.acks(TWO, THREE, z(1, 1))
    s.commits(THREE, z(1, 1))
    s.establishes_epoch(TWO, 2, ONE)
    s.lets_serve(TWO, ONE, NOTHING if bad else z(1, 1))


@refused(Action.LET_SERVE)
def up_to_date_sent_by_another_server(s: Scenario, bad: bool) -> None:
    s.establishes_epoch()
    s.judge.role(TWO, State.LEADING, Epoch(1), TWO, False)
    s.judge.said[UpToDate](TWO if bad else THREE, ONE, UpToDate(NOTHING))


# -- broadcast -----------------------------------------------------------------------------------------


@refused(Action.PROPOSE)
def proposed_before_a_quorum_adopted(s: Scenario, bad: bool) -> None:
    s.seeks(THREE, 1)
    s.promises(ONE, THREE, 1)
    s.establishes(THREE, 1)
    s.adopts(THREE, THREE, 1)
    if not bad:
        s.adopts(ONE, THREE, 1)
    s.logs(batch(1, 1), THREE)


@refused(Action.PROPOSE)
def proposed_by_a_leader_that_has_not_adopted_its_epoch(s: Scenario, bad: bool) -> None:
    s.seeks(THREE, 1)
    s.promises(ONE, THREE, 1)
    s.establishes(THREE, 1)
    s.adopts(ONE, THREE, 1)
    if not bad:
        s.adopts(THREE, THREE, 1)
    s.logs(batch(1, 1), THREE)


@refused(Action.PROPOSE)
def proposed_with_a_gap(s: Scenario, bad: bool) -> None:
    s.establishes_epoch()
    s.logs(batch(1, 1), THREE)
    s.logs(batch(1, 3 if bad else 2), THREE)


@refused(Action.PROPOSE)
def proposed_in_an_epoch_of_another_leader(s: Scenario, bad: bool) -> None:
    s.establishes_epoch()
    s.judge.role(TWO, State.LEADING, Epoch(1), TWO, False)
    s.logs(batch(1, 1), TWO if bad else THREE)


@refused(Action.PROPOSE)
def proposed_behind_less_than_it_had(s: Scenario, bad: bool) -> None:
    s.establishes_epoch()
    s.logs(batch(1, 1, b"a", b"b"), THREE)
    if bad:
        s.ghost.servers[THREE].tip = z(1, 1)
    s.logs(batch(1, 2 if bad else 3), THREE)


@refused(Action.ACKNOWLEDGE)
def acknowledged_from_memory(s: Scenario, bad: bool) -> None:
    s.establishes_epoch()
    s.logs(batch(1, 1), THREE)
    s.logs(batch(1, 1), ONE, durably=not bad)
    s.acks(ONE, THREE, z(1, 1))


@refused(Action.ACKNOWLEDGE)
def acknowledged_to_another_one(s: Scenario, bad: bool) -> None:
    s.establishes_epoch()
    s.logs(batch(1, 1), THREE, ONE)
    s.acks(ONE, TWO if bad else THREE, z(1, 1))


@refused(Action.ACKNOWLEDGE)
def acknowledged_by_a_server_that_has_not_adopted_the_epoch(s: Scenario, bad: bool) -> None:
    s.establishes_epoch(THREE, 1, ONE)
    s.promises(TWO, THREE, 1)
    s.logs(batch(1, 1), THREE, TWO)
    if not bad:
        s.adopts(TWO, THREE, 1)
    s.acks(TWO, THREE, z(1, 1))


@refused(Action.ACKNOWLEDGE)
def acknowledged_a_transaction_that_the_leader_lacks(s: Scenario, bad: bool) -> None:
    _a_phantom(s)
    s.adopts(THREE, TWO, 2)
    s.acks(THREE, TWO, z(1, 3) if bad else z(1, 1))


@refused(Action.COMMIT)
def committed_without_acknowledgements(s: Scenario, bad: bool) -> None:
    """All disks have it, so no invariant is violated yet. But the leader cannot know that."""
    s.establishes_epoch()
    s.logs(batch(1, 1), THREE, ONE, TWO)
    if not bad:
        s.acks(ONE, THREE, z(1, 1))
    s.commits(THREE, z(1, 1))


@refused(Action.COMMIT)
def committed_by_two_servers_that_are_no_quorum(s: Scenario, bad: bool) -> None:
    s.establishes_epoch()
    s.promises(FOUR, THREE, 1)
    s.adopts(FOUR, THREE, 1)
    helper = FOUR if bad else ONE
    s.logs(batch(1, 1), THREE, helper)
    s.acks(helper, THREE, z(1, 1))
    s.commits(THREE, z(1, 1))


@refused(Action.COMMIT)
def committed_before_it_is_on_its_own_disk(s: Scenario, bad: bool) -> None:
    s.establishes_epoch()
    s.logs(batch(1, 1), THREE, durably=not bad)
    s.logs(batch(1, 1), ONE)
    s.acks(ONE, THREE, z(1, 1))
    s.commits(THREE, z(1, 1))


@refused(Action.COMMIT)
def committed_of_an_earlier_epoch(s: Scenario, bad: bool) -> None:
    """Transactions before the last one of the initial history are committed with it, not by themselves."""
    s.establishes_epoch()
    for number in (1, 2):
        s.logs(batch(1, number), THREE, ONE, TWO)
    s.seeks(TWO, 2)
    s.promises(ONE, TWO, 2)
    s.establishes(TWO, 2)
    for sid in (TWO, ONE):
        s.adopts(sid, TWO, 2)
    s.commits(TWO, z(1, 1 if bad else 2))


@refused(Action.LEARN)
def learned_an_uncommitted_transaction(s: Scenario, bad: bool) -> None:
    s.establishes_epoch()
    s.logs(batch(1, 1), THREE, ONE, TWO)
    s.acks(ONE, THREE, z(1, 1))
    if not bad:
        s.commits(THREE, z(1, 1))
    s.judge.committed(ONE, z(1, 1), False)


@refused(Action.LEARN)
def learned_a_transaction_that_it_lacks(s: Scenario, bad: bool) -> None:
    s.establishes_epoch()
    s.logs(batch(1, 1), THREE, ONE, *(() if bad else (TWO,)))
    s.acks(ONE, THREE, z(1, 1))
    s.commits(THREE, z(1, 1))
    s.judge.committed(TWO, z(1, 1), False)


@refused(Action.DELIVER)
def delivered_before_it_is_known_to_be_committed(s: Scenario, bad: bool) -> None:
    s.establishes_epoch()
    s.logs(batch(1, 1), THREE, ONE, TWO)
    s.acks(ONE, THREE, z(1, 1))
    s.commits(THREE, z(1, 1))
    if not bad:
        s.judge.committed(TWO, z(1, 1), False)
    s.applies(batch(1, 1), TWO)


@refused(Action.DELIVER)
def delivered_with_a_gap(s: Scenario, bad: bool) -> None:
    s.establishes_epoch()
    for number in (1, 2):
        s.logs(batch(1, number), THREE, ONE, TWO)
    s.acks(ONE, THREE, z(1, 2))
    s.commits(THREE, z(1, 2))
    s.judge.committed(ONE, z(1, 2), False)
    if not bad:
        s.applies(batch(1, 1), ONE)
    s.applies(batch(1, 2), ONE)


@refused(Action.SERVE)
def served_without_up_to_date(s: Scenario, bad: bool) -> None:
    s.seeks(THREE, 1)
    s.promises(ONE, THREE, 1)
    s.establishes(THREE, 1)
    s.adopts(THREE, THREE, 1)
    s.adopts(ONE, THREE, 1)
    if not bad:
        s.lets_serve(THREE, ONE, NOTHING)
    s.judge.serves(ONE)


@refused(Action.SERVE)
def served_before_it_has_the_committed_history(s: Scenario, bad: bool) -> None:
    s.establishes_epoch()
    s.logs(batch(1, 1), THREE, ONE, TWO)
    s.acks(ONE, THREE, z(1, 1))
    s.commits(THREE, z(1, 1))
    s.lets_serve(THREE, ONE, z(1, 1))
    s.judge.committed(ONE, z(1, 1), False)
    if not bad:
        s.applies(batch(1, 1), ONE)
    s.judge.serves(ONE)


@refused(Action.SERVE)
def led_before_it_has_the_initial_history(s: Scenario, bad: bool) -> None:
    s.establishes_epoch()
    s.logs(batch(1, 1), THREE, ONE, TWO)
    s.establishes_epoch(TWO, 2, ONE)
    s.commits(TWO, z(1, 1))
    if not bad:
        s.applies(batch(1, 1), TWO)
    s.judge.serves(TWO)


# -- lost disks, restarts and membership changes ---------------------------------------------------------


def _promises_to(s: Scenario, leader: ServerId) -> None:
    """Server 1 is in epoch 1."""
    s.judge.heard_leader_info(ONE, Epoch(1))
    s.judge.said[AckEpoch](ONE, leader, AckEpoch(Epoch(0), NOTHING, 0))


@refused(Action.TELL_PROMISE)
def promise_forgotten_with_a_disk_that_went_back(s: Scenario, bad: bool) -> None:
    s.judge.durable_epochs(ONE, Epoch(1), Epoch(0))
    _promises_to(s, THREE)
    if not bad:
        s.judge.disk_went_back(ONE)
    s.judge.crashed(ONE)
    s.restarts(ONE, 0)
    s.judge.durable_epochs(ONE, Epoch(1), Epoch(0))
    _promises_to(s, TWO)


@refused(Action.TELL_PROMISE)
def promise_forgotten_with_a_disk_that_was_lost(s: Scenario, bad: bool) -> None:
    s.judge.durable_epochs(ONE, Epoch(1), Epoch(0))
    _promises_to(s, THREE)
    if not bad:
        s.judge.disk_lost(ONE)
    s.judge.crashed(ONE)
    s.restarts(ONE, 0, voting=False)
    s.judge.durable_epochs(ONE, Epoch(1), Epoch(0))
    _promises_to(s, TWO)


@refused(Action.TELL_PROMISE)
def unhealed_server_may_promise_again(s: Scenario, bad: bool) -> None:
    s.judge.disk_lost(ONE)
    s.judge.durable_epochs(ONE, Epoch(1), Epoch(0), trusted=bad)
    _promises_to(s, THREE)
    _promises_to(s, TWO)


@refused(Action.DELIVER)
def commit_known_before_a_restart_is_unknown(s: Scenario, bad: bool) -> None:
    s.establishes_epoch()
    s.logs(batch(1, 1), THREE, ONE, TWO)
    s.acks(ONE, THREE, z(1, 1))
    s.commits(THREE, z(1, 1))
    s.judge.committed(ONE, z(1, 1), False)
    s.judge.crashed(ONE)
    s.restarts(ONE, 1, batch(1, 1))
    if not bad:
        s.judge.committed(ONE, z(1, 1), False)
    s.applies(batch(1, 1), ONE)


@refused(Action.DELIVER)
def snapshot_contains_committed_transactions(s: Scenario, bad: bool) -> None:
    s.establishes_epoch()
    s.logs(batch(1, 1), THREE, ONE, TWO)
    s.acks(ONE, THREE, z(1, 1))
    s.commits(THREE, z(1, 1))
    s.judge.crashed(ONE)
    snapshot = NOTHING if bad else z(1, 1)
    s.judge.started(ONE, Recovered(Epoch(1), Epoch(1), snapshot=snapshot), z(1, 1))
    s.applies(batch(1, 1), ONE)


@refused(Action.ESTABLISH)
def established_by_the_present_voters(s: Scenario, bad: bool) -> None:
    """Servers 3 and 4 are the voters after 1 and 2 have left."""
    s.establishes_epoch()
    changed = ENSEMBLE.changed(leaving=(ONE, TWO), joining=(member(FOUR),), version=z(1, 1))
    change = pack(z(1, 1), [changed.text().encode()], config=not bad)
    s.logs(change, THREE, ONE)
    s.seeks(THREE, 2)
    s.promises(FOUR, THREE, 2)
    s.establishes(THREE, 2)


@refused(Action.ACCEPT)
def leader_logs_of_an_earlier_epoch(s: Scenario, bad: bool) -> None:
    """A leader proposes in its own epoch; earlier transactions come from other leaders."""
    s.establishes_epoch()
    s.logs(batch(1, 1), THREE)
    s.judge.role(ONE, State.LEADING, Epoch(3), ONE, False)
    if bad:
        s.judge.heard_leader_info(ONE, Epoch(2))
    s.logs(batch(1, 1), ONE)


@refused(Action.ACCEPT)
def logged_on_another_branch(s: Scenario, bad: bool) -> None:
    """Another server of that epoch has the transaction, but the leader does not."""
    _a_phantom(s)
    s.logs(batch(2, 1), TWO)
    s.logs(batch(1, 2) if bad else batch(2, 1), ONE)


@refused(Action.COMMIT)
def committed_with_a_server_that_joined_later(s: Scenario, bad: bool) -> None:
    """Server 2 had the transaction before it acknowledged the epoch."""
    s.establishes_epoch(THREE, 1, ONE)
    s.logs(batch(1, 1), THREE)
    s.promises(TWO, THREE, 1)
    s.logs(batch(1, 1), TWO, durably=not bad)
    s.adopts(TWO, THREE, 1)
    s.commits(THREE, z(1, 1))


@refused(Action.COMMIT)
def committed_before_a_quorum_adopted(s: Scenario, bad: bool) -> None:
    s.establishes_epoch()
    s.logs(batch(1, 1), THREE, ONE, TWO)
    s.seeks(TWO, 2)
    s.promises(ONE, TWO, 2)
    s.establishes(TWO, 2)
    s.adopts(ONE, TWO, 2)
    if not bad:
        s.adopts(TWO, TWO, 2)
    s.commits(TWO, z(1, 1))


@refused(Action.COMMIT)
def committed_beyond_what_it_has(s: Scenario, bad: bool) -> None:
    """Server 1 finds a transaction on its disk that its leader has never proposed."""
    s.establishes_epoch()
    s.logs(batch(1, 1), THREE, ONE, TWO)
    s.acks(TWO, THREE, z(1, 1))
    s.restarts(ONE, 1, batch(1, 1), batch(1, 2))
    s.commits(THREE, z(1, 2) if bad else z(1, 1))


@refused(Action.DELIVER)
def leader_delivers_what_it_has_committed(s: Scenario, bad: bool) -> None:
    s.establishes_epoch()
    s.logs(batch(1, 1), THREE, ONE, TWO)
    s.acks(ONE, THREE, z(1, 1))
    if not bad:
        s.commits(THREE, z(1, 1))
    s.applies(batch(1, 1), THREE)


@refused(Action.SERVE)
def led_before_a_quorum_adopted(s: Scenario, bad: bool) -> None:
    s.seeks(THREE, 1)
    s.promises(ONE, THREE, 1)
    s.establishes(THREE, 1)
    s.adopts(THREE, THREE, 1)
    if not bad:
        s.adopts(ONE, THREE, 1)
    s.judge.serves(THREE)
