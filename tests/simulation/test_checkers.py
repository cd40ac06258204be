"""For every promise a hand-made story in which it is broken, told to its checker alone, which must object.

And the same stories with the fault taken out, to which it must not. A checker that can never fail would
pass all of the second kind and none of the first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from harness.checkers import ALL, Checker, Ghost, Judge, Violation
from harness.checkers.delivery import Agreement, CommittedAndDurable, Integrity, PrefixConsistency, TotalOrder
from harness.checkers.durability import (
    AdoptedByQuorum,
    DurableBeforeAck,
    DurableOnQuorum,
    EpochsAscend,
    HistoryBeforeEpoch,
)
from harness.checkers.history import (
    CommittedStays,
    Contiguity,
    LogMatching,
    ProcessConsistency,
    SameZxidSameTransaction,
)
from harness.checkers.leadership import (
    FollowsALeader,
    LeaderCompleteness,
    OneLeaderPerEpoch,
    RemovedLeaderEnds,
    StepDown,
)
from harness.checkers.primary_order import GlobalPrimaryOrder, LocalPrimaryOrder, PrimaryIntegrity
from harness.checkers.recovery import MachineIsHistory, RestartIsTheDisk
from harness.checkers.refinement import Refinement
from harness.checkers.service import BarrierIsLinearizable, NoCrash, ServingIsCurrent
from harness.worlds.cores.machine import Machine
from harness.worlds.cores.workload import member
from zab.core.batch import Batch, digest_of, pack
from zab.core.ensemble import Ensemble, Role
from zab.core.messages import Ack, AckEpoch, AckNewLeader, LeaderInfo, NewLeader, Notification, State, UpToDate
from zab.core.ready import Append, Recovered, SaveEpochs, Write
from zab.core.zxid import NOTHING, Epoch, ServerId, Zxid, make

ONE, TWO, THREE, FOUR = ServerId(1), ServerId(2), ServerId(3), ServerId(4)
ENSEMBLE: Final = Ensemble((member(ONE), member(TWO), member(THREE), member(FOUR, Role.OBSERVER)))


def z(epoch: int, counter: int) -> Zxid:
    return make(epoch, counter)


class Story:
    """The judge with short words for what usually happens together."""

    def __init__(self, *checkers: type[Checker]) -> None:
        self.ghost = Ghost(ENSEMBLE, 4)
        self.judge = Judge(self.ghost, checkers)
        for sid in (ONE, TWO, THREE, FOUR):
            self.judge.started(sid, Recovered(Epoch(0), Epoch(0)), NOTHING)

    def epochs(self, epoch: int, *servers: ServerId) -> None:
        for sid in servers:
            self.judge.durable_epochs(sid, Epoch(epoch), Epoch(epoch))

    def leads(self, sid: ServerId, epoch: int) -> None:
        """Elected, established, serving."""
        before = self.ghost.servers[sid].epoch
        self.judge.role(sid, State.LOOKING, before, None, False)
        self.judge.role(sid, State.LEADING, before, sid, False)
        self.judge.role(sid, State.LEADING, Epoch(epoch), sid, False)
        self.judge.role(sid, State.LEADING, Epoch(epoch), sid, True)

    def follows(self, sid: ServerId, leader: ServerId, epoch: int) -> None:
        self.judge.role(sid, State.FOLLOWING, Epoch(epoch), leader, False)
        self.judge.role(sid, State.FOLLOWING, Epoch(epoch), leader, True)

    def proposes(self, sid: ServerId, epoch: int, counter: int, *payloads: bytes) -> Batch:
        batch = pack(z(epoch, counter), payloads or (b"%d/%d" % (epoch, counter),))
        self.judge.proposed(sid, batch.first, batch.payloads())
        self.judge.broadcasts(sid, Epoch(epoch))
        return batch

    def logs(self, batch: Batch, *servers: ServerId, durably: bool = True) -> None:
        for sid in servers:
            self.judge.appended(sid, batch)
            if durably:
                self.judge.durable_append(sid, batch)

    def applies(self, batch: Batch, *servers: ServerId) -> None:
        for sid in servers:
            self.judge.applied(sid, batch)

    def begins(self) -> Batch:
        """Server 3 leads epoch 1, and everybody has applied 1/1."""
        self.epochs(1, ONE, TWO, THREE)
        self.leads(THREE, 1)
        first = self.proposes(THREE, 1, 1)
        self.logs(first, ONE, TWO, THREE)
        self.judge.committed(THREE, first.last, True)
        self.applies(first, ONE, TWO, THREE)
        return first


Bad = Callable[[Story, bool], None]
"""Tells a story; with the second argument true, the one in which the promise is broken."""


# -- leadership ----------------------------------------------------------------------------------------


def two_leaders(story: Story, bad: bool) -> None:
    story.leads(THREE, 1)
    story.leads(TWO, 1 if bad else 2)


def a_leader_returns_to_its_epoch(story: Story, bad: bool) -> None:
    story.leads(THREE, 1)
    story.judge.crashed(THREE)
    story.ghost.servers[THREE].epoch = Epoch(0)  # as far as it remembers
    story.leads(THREE, 1 if bad else 2)


def two_say_new_leader(story: Story, bad: bool) -> None:
    story.judge.said[NewLeader](THREE, ONE, NewLeader(Epoch(1), ENSEMBLE))
    story.judge.said[NewLeader](TWO if bad else THREE, ONE, NewLeader(Epoch(1), ENSEMBLE))


def a_leader_without_what_was_committed(story: Story, bad: bool) -> None:
    first = story.proposes(THREE, 1, 1)
    story.logs(first, TWO, THREE)
    story.judge.committed(THREE, first.last, True)
    story.leads(ONE if bad else TWO, 2)


def a_deposed_leader_commits_more(story: Story, bad: bool) -> None:
    story.leads(THREE, 1)
    first = story.proposes(THREE, 1, 1)
    story.logs(first, *((ONE, THREE) if bad else (ONE, TWO, THREE)))
    story.leads(TWO, 2)
    story.judge.committed(THREE, first.last, True)


def a_leader_that_has_left_proposes(story: Story, bad: bool) -> None:
    story.leads(THREE, 1)
    changed = ENSEMBLE.changed(leaving=(THREE if bad else TWO,), version=z(1, 1))
    batch = pack(z(1, 1), [changed.text().encode()], config=True)
    story.logs(batch, ONE, TWO, THREE)
    story.judge.committed(THREE, batch.last, True)
    story.judge.proposed(THREE, z(1, 2), [b"more"])


def says(story: Story, source: ServerId, state: State, leader: ServerId) -> None:
    """To server 1."""
    story.judge.heard_notification(ONE, source, Notification(state, leader, z(1, 1), Epoch(1), 1, ENSEMBLE))


def a_leader_that_others_speak_of(story: Story, bad: bool) -> None:
    story.begins()
    says(story, TWO, State.FOLLOWING, THREE)
    says(story, FOUR, State.OBSERVING, THREE)
    if not bad:
        says(story, THREE, State.LEADING, THREE)
    story.follows(ONE, THREE, 1)


def a_leader_of_an_earlier_search(story: Story, bad: bool) -> None:
    story.begins()
    says(story, THREE, State.LEADING, THREE)
    story.follows(ONE, THREE, 1)
    story.judge.role(ONE, State.LOOKING, Epoch(1), None, False)
    says(story, TWO, State.FOLLOWING, THREE)
    if not bad:
        says(story, THREE, State.LEADING, THREE)
    story.follows(ONE, THREE, 1)


def a_vote_that_is_not_a_quorum(story: Story, bad: bool) -> None:
    story.begins()
    says(story, FOUR if bad else TWO, State.LOOKING, THREE)
    story.follows(ONE, THREE, 1)


def a_leader_that_hears_nobody(story: Story, bad: bool) -> None:
    story.leads(THREE, 1)
    story.judge.observed(THREE, [ONE, TWO] if bad else [ONE])


# -- histories -----------------------------------------------------------------------------------------


def one_zxid_two_contents(story: Story, bad: bool) -> None:
    story.logs(pack(z(1, 1), [b"a"]), ONE)
    story.logs(pack(z(1, 1), [b"b" if bad else b"a"]), TWO)


def one_zxid_two_contents_inside_a_batch(story: Story, bad: bool) -> None:
    story.logs(pack(z(1, 1), [b"a", b"b", b"c"]), ONE)
    story.logs(pack(z(1, 1), [b"a"]), TWO)
    story.logs(pack(z(1, 2), [b"x" if bad else b"b", b"c"]), TWO)


def one_transaction_two_pasts(story: Story, bad: bool) -> None:
    story.logs(pack(z(1, 1), [b"a"]), ONE)
    if not bad:
        story.logs(pack(z(1, 1), [b"a"]), TWO)
    story.logs(pack(z(2, 1), [b"b"]), ONE)
    story.logs(pack(z(2, 1), [b"b"]), TWO)


def a_hole(story: Story, bad: bool) -> None:
    story.logs(pack(z(1, 1), [b"a"]), ONE)
    story.logs(pack(z(1, 3 if bad else 2), [b"b"]), ONE)


def a_step_back(story: Story, bad: bool) -> None:
    story.logs(pack(z(2, 1), [b"a"]), ONE)
    story.logs(pack(z(1 if bad else 3, 1), [b"b"]), ONE)


def a_hole_on_the_disk(story: Story, bad: bool) -> None:
    found = (pack(z(1, 1), [b"a"]), pack(z(1, 3 if bad else 2), [b"b"]))
    story.judge.started(ONE, Recovered(Epoch(1), Epoch(1), batches=found), found[-1].last)


def committed_is_cut_away(story: Story, bad: bool) -> None:
    story.begins()
    if not bad:
        story.logs(story.proposes(THREE, 1, 2), ONE)
    story.judge.truncated(ONE, NOTHING if bad else z(1, 1))


def a_snapshot_older_than_the_log(story: Story, bad: bool) -> None:
    first = story.begins()
    second = story.proposes(THREE, 1, 2)
    story.logs(second, ONE, TWO, THREE)
    story.judge.committed(THREE, second.last, True)
    story.judge.installed(ONE, first.last if bad else second.last)


def cut_at_nowhere(story: Story, bad: bool) -> None:
    first = story.begins()
    story.judge.truncated(ONE, z(1, 9) if bad else first.last)


def a_phantom(story: Story, bad: bool) -> None:
    """The learner keeps a transaction that only it has, and is synchronized behind it."""
    story.logs(pack(z(1, 1), [b"phantom"]), *((ONE,) if bad else (ONE, THREE)))
    story.leads(THREE, 2)
    story.judge.said[AckNewLeader](ONE, THREE, AckNewLeader(Epoch(2)))


def a_phantom_while_serving(story: Story, bad: bool) -> None:
    story.logs(pack(z(1, 1), [b"phantom"]), *((ONE,) if bad else (ONE, THREE)))
    story.leads(THREE, 2)
    story.follows(ONE, THREE, 2)


# -- durability ----------------------------------------------------------------------------------------


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


def acknowledged_before_durable(story: Story, bad: bool) -> None:
    story.logs(story.proposes(THREE, 1, 1), ONE, durably=not bad)
    story.judge.said[Ack](ONE, THREE, Ack(z(1, 1)))


def epoch_acknowledged_before_durable(story: Story, bad: bool) -> None:
    story.leads(THREE, 1)
    story.epochs(0 if bad else 1, ONE)
    story.judge.said[AckNewLeader](ONE, THREE, AckNewLeader(Epoch(1)))


def epoch_acknowledged_before_its_history(story: Story, bad: bool) -> None:
    first = story.proposes(THREE, 1, 1)
    story.logs(first, THREE)
    story.logs(first, ONE, durably=not bad)
    story.leads(THREE, 2)
    story.epochs(2, ONE)
    story.judge.said[AckNewLeader](ONE, THREE, AckNewLeader(Epoch(2)))


def promised_before_durable(story: Story, bad: bool) -> None:
    story.judge.heard_leader_info(ONE, Epoch(2))
    story.epochs(1 if bad else 2, ONE)
    story.judge.said[AckEpoch](ONE, THREE, AckEpoch(Epoch(0), NOTHING, 0))


def announced_before_durable(story: Story, bad: bool) -> None:
    story.epochs(1 if bad else 2, THREE)
    story.judge.said[LeaderInfo](THREE, ONE, LeaderInfo(Epoch(2)))


def epoch_before_history(story: Story, bad: bool) -> None:
    first = story.proposes(THREE, 1, 1)
    story.logs(first, THREE)
    story.leads(THREE, 2)
    if not bad:
        story.logs(first, ONE)
    story.epochs(2, ONE)


def restarted_in_an_epoch_without_its_history(story: Story, bad: bool) -> None:
    first = story.proposes(THREE, 1, 1)
    story.logs(first, THREE)
    story.leads(THREE, 2)
    batches = () if bad else (first,)
    story.judge.started(ONE, Recovered(Epoch(2), Epoch(2), batches=batches), NOTHING if bad else first.last)


def an_epoch_goes_back(story: Story, bad: bool) -> None:
    story.epochs(2, ONE)
    story.judge.durable_epochs(ONE, Epoch(2), Epoch(1 if bad else 2))


def adopted_more_than_promised(story: Story, bad: bool) -> None:
    story.judge.durable_epochs(ONE, Epoch(1), Epoch(2 if bad else 1))


def logged_more_than_promised(story: Story, bad: bool) -> None:
    story.epochs(1, ONE)
    story.logs(pack(z(2 if bad else 1, 1), [b"a"]), ONE)


def a_promise_is_forgotten(story: Story, bad: bool) -> None:
    story.epochs(2, ONE)
    story.judge.crashed(ONE)
    story.judge.started(ONE, Recovered(Epoch(1 if bad else 2), Epoch(1 if bad else 2)), NOTHING)


def committed_by_one(story: Story, bad: bool) -> None:
    first = story.proposes(THREE, 1, 1)
    story.logs(first, THREE, FOUR, *(() if bad else (ONE,)))
    story.judge.committed(THREE, first.last, True)


def acknowledged_by_one(story: Story, bad: bool) -> None:
    first = story.proposes(THREE, 1, 1)
    story.logs(first, THREE, *(() if bad else (ONE,)))
    story.judge.acknowledged(THREE, first.last)


def a_change_without_the_new_members(story: Story, bad: bool) -> None:
    changed = ENSEMBLE.changed(leaving=(ONE, TWO), joining=(member(FOUR),), version=z(1, 1))
    batch = pack(z(1, 1), [changed.text().encode()], config=True)
    story.logs(batch, ONE, TWO, THREE, *(() if bad else (FOUR,)))
    story.judge.committed(THREE, batch.last, True)


def a_lost_disk_uncommits_nothing(story: Story, bad: bool) -> None:
    first = story.proposes(THREE, 1, 1)
    story.logs(first, THREE, *(() if bad else (ONE,)))
    story.judge.disk_lost(ONE)
    story.judge.crashed(ONE)
    story.judge.started(ONE, Recovered(Epoch(0), Epoch(0), voting=False), NOTHING)
    story.judge.committed(THREE, first.last, True)


def up_to_date_too_early(story: Story, bad: bool) -> None:
    story.leads(THREE, 1)
    story.epochs(1, THREE, *(() if bad else (ONE,)))
    story.judge.said[UpToDate](THREE, ONE, UpToDate(NOTHING))


# -- delivery ------------------------------------------------------------------------------------------


def committed_beside_the_canon(story: Story, bad: bool) -> None:
    story.begins()
    other = pack(z(2, 1), [b"other"])
    if bad:
        story.judge.truncated(ONE, NOTHING)
    story.logs(other, ONE)
    story.judge.committed(ONE, other.last, True)


def delivered_beside_the_canon(story: Story, bad: bool) -> None:
    story.begins()
    second = story.proposes(THREE, 1, 2)
    story.logs(second, ONE, TWO, THREE)
    story.judge.committed(THREE, second.last, True)
    story.applies(pack(z(1, 3), [b"x"]) if bad else second, ONE)


def restored_from_nowhere(story: Story, bad: bool) -> None:
    first = story.begins()
    story.judge.restored(TWO, z(1, 7) if bad else first.last)


def two_orders(story: Story, bad: bool) -> None:
    a, b = pack(z(1, 1), [b"a"]), pack(z(1, 2), [b"b"])
    story.applies(a, ONE)
    story.applies(b, ONE)
    if not bad:
        story.applies(a, TWO)
    story.applies(b, TWO)


def each_delivers_what_the_other_lacks(story: Story, bad: bool) -> None:
    a, b = pack(z(1, 1), [b"a"]), pack(z(1, 2), [b"b"])
    story.applies(a, ONE)
    if not bad:
        story.applies(a, TWO)
    story.applies(b, TWO)


def disagreement_through_a_snapshot(story: Story, bad: bool) -> None:
    a, b, c = (pack(z(1, number), [b"%d" % number]) for number in (1, 2, 3))
    story.applies(a, ONE)
    story.applies(b, ONE)
    story.judge.restored(TWO, z(1, 1) if bad else z(1, 2))
    story.applies(c, TWO)
    if not bad:
        story.applies(c, ONE)


def delivered_but_never_proposed(story: Story, bad: bool) -> None:
    batch = pack(z(1, 1), [b"a"]) if bad else story.proposes(THREE, 1, 1)
    story.applies(batch, ONE)


def delivered_with_another_content(story: Story, bad: bool) -> None:
    story.proposes(THREE, 1, 1, b"a", b"b")
    story.applies(pack(z(1, 1), [b"a", b"x" if bad else b"b"]), ONE)


def proposed_twice(story: Story, bad: bool) -> None:
    story.proposes(THREE, 1, 1, b"a")
    story.proposes(TWO, 1, 1 if bad else 2, b"b")


def applied_before_committed(story: Story, bad: bool) -> None:
    first = story.proposes(THREE, 1, 1)
    story.logs(first, ONE, TWO, THREE)
    if not bad:
        story.judge.committed(THREE, first.last, True)
    story.applies(first, THREE)


def applied_before_durable(story: Story, bad: bool) -> None:
    first = story.proposes(THREE, 1, 1)
    story.logs(first, TWO, THREE)
    story.logs(first, ONE, durably=not bad)
    story.judge.committed(THREE, first.last, True)
    story.applies(first, ONE)


def applied_with_a_gap(story: Story, bad: bool) -> None:
    first, second = story.proposes(THREE, 1, 1), story.proposes(THREE, 1, 2)
    for batch in (first, second):
        story.logs(batch, ONE, TWO, THREE)
    story.judge.committed(THREE, second.last, True)
    if not bad:
        story.applies(first, ONE)
    story.applies(second, ONE)


def believed_but_never_committed(story: Story, bad: bool) -> None:
    first = story.proposes(THREE, 1, 1)
    story.logs(first, ONE, TWO, THREE)
    if not bad:
        story.judge.committed(THREE, first.last, True)
    story.judge.committed(ONE, first.last, False)


# -- primary order -------------------------------------------------------------------------------------


def out_of_the_primarys_order(story: Story, bad: bool) -> None:
    a, b = story.proposes(THREE, 1, 1), story.proposes(THREE, 1, 2)
    for batch in (b, a) if bad else (a, b):
        story.applies(batch, ONE)


def the_primarys_first_is_skipped(story: Story, bad: bool) -> None:
    """The pair that a formula of the form "there are a, b" would not miss: a is never delivered at all."""
    a, b = story.proposes(THREE, 1, 1), story.proposes(THREE, 1, 2)
    if not bad:
        story.applies(a, ONE)
    story.applies(b, ONE)


def a_later_pair_is_out_of_order(story: Story, bad: bool) -> None:
    """The first pairs are fine: whoever looks at some pair only is satisfied."""
    batches = [story.proposes(THREE, 1, number) for number in (1, 2, 3, 4)]
    if bad:
        batches[2], batches[3] = batches[3], batches[2]
    for batch in batches:
        story.applies(batch, ONE)


def skipped_behind_a_snapshot(story: Story, bad: bool) -> None:
    batches = [story.proposes(THREE, 1, number) for number in (1, 2, 3)]
    story.judge.restored(ONE, batches[0].last if bad else batches[1].last)
    story.applies(batches[2], ONE)


def epochs_out_of_order(story: Story, bad: bool) -> None:
    story.applies(story.proposes(THREE, 2 if bad else 1, 1), ONE)
    story.applies(story.proposes(TWO, 1 if bad else 2, 1), ONE)


def broadcasts_before_it_has_delivered(story: Story, bad: bool) -> None:
    first = story.proposes(THREE, 1, 1)
    story.applies(first, *((ONE,) if bad else (ONE, TWO)))
    story.proposes(TWO, 2, 1)


def a_follower_delivers_more_than_its_primary(story: Story, bad: bool) -> None:
    first, second = story.proposes(THREE, 1, 1), story.proposes(THREE, 1, 2)
    story.applies(first, ONE, TWO)
    story.leads(TWO, 2)
    story.follows(ONE, TWO, 2)
    story.proposes(TWO, 2, 1)
    if not bad:
        story.applies(second, TWO)
    story.applies(second, ONE)


# -- recovery ------------------------------------------------------------------------------------------


def a_restart_finds_less(story: Story, bad: bool) -> None:
    first = story.begins()
    story.judge.crashed(ONE)
    story.judge.started(
        ONE, Recovered(Epoch(1), Epoch(1), batches=() if bad else (first,)), NOTHING if bad else first.last
    )


def a_restart_finds_more(story: Story, bad: bool) -> None:
    first = story.begins()
    second = story.proposes(THREE, 1, 2)
    story.logs(second, ONE, durably=False)
    story.judge.crashed(ONE, [] if bad else [Append(1, second)])
    story.judge.started(ONE, Recovered(Epoch(1), Epoch(1), batches=(first, second)), second.last)


def a_later_write_without_an_earlier(story: Story, bad: bool) -> None:
    first = story.begins()
    second = story.proposes(THREE, 1, 2)
    writes: list[Write] = [Append(1, second), SaveEpochs(2, Epoch(3), Epoch(1), ENSEMBLE)]
    story.judge.crashed(ONE, writes)
    found = (first,) if bad else (first, second)
    story.judge.started(ONE, Recovered(Epoch(3), Epoch(1), batches=found), found[-1].last)


def a_lost_disk_that_votes(story: Story, bad: bool) -> None:
    story.begins()
    story.judge.disk_lost(ONE)
    story.judge.crashed(ONE)
    story.judge.started(ONE, Recovered(Epoch(0), Epoch(0), voting=bad), NOTHING)


def a_state_that_no_history_makes(story: Story, bad: bool) -> None:
    first = story.begins()
    machine = Machine()
    machine.apply(pack(first.first, [b"x"]) if bad else first)
    story.judge.machine(ONE, machine.zxid, machine.digest, digest_of(first.payloads(), 0))


def a_digest_that_no_history_has(story: Story, bad: bool) -> None:
    first = story.begins()
    machine = Machine()
    machine.apply(first)
    story.judge.machine(ONE, machine.zxid, machine.digest, 1 if bad else digest_of(first.payloads(), 0))


def a_state_from_nowhere(story: Story, bad: bool) -> None:
    first = story.begins()
    machine = Machine()
    machine.apply(first)
    story.judge.machine(ONE, z(1, 5) if bad else machine.zxid, machine.digest, digest_of(first.payloads(), 0))


# -- service -------------------------------------------------------------------------------------------


def a_barrier_from_the_past(story: Story, bad: bool) -> None:
    first = story.begins()
    story.judge.acknowledged(THREE, first.last)
    story.judge.barrier_asked(ONE, 7)
    story.judge.barrier_answered(ONE, 7, NOTHING if bad else first.last)


def a_barrier_that_is_not_reached(story: Story, bad: bool) -> None:
    first = story.begins()
    if bad:
        story.judge.restored(ONE, NOTHING)
    story.judge.barrier_asked(ONE, 7)
    story.judge.barrier_answered(ONE, 7, first.last)


def leading_with_an_old_state(story: Story, bad: bool) -> None:
    story.begins()
    second = story.proposes(THREE, 1, 2)
    story.logs(second, ONE, TWO, THREE)
    story.judge.committed(THREE, second.last, True)
    story.epochs(2, ONE, TWO)
    story.leads(TWO, 2)
    if not bad:
        story.applies(second, TWO)
    story.judge.serves(TWO)


def serving_an_old_state(story: Story, bad: bool) -> None:
    first = story.begins()
    story.judge.said[UpToDate](THREE, ONE, UpToDate(first.last))
    story.follows(ONE, THREE, 1)
    if bad:
        story.judge.restored(ONE, NOTHING)
    story.judge.serves(ONE)


def up_to_date_with_what_is_not_committed(story: Story, bad: bool) -> None:
    first = story.begins()
    story.logs(story.proposes(THREE, 1, 2), THREE)
    story.judge.said[UpToDate](THREE, ONE, UpToDate(z(1, 2) if bad else first.last))


def it_falls_over(story: Story, bad: bool) -> None:
    if bad:
        story.judge.failed(ONE, "ticks", ZeroDivisionError("oops"))


# -- the specification ---------------------------------------------------------------------------------


def a_leader_that_nobody_promised_anything(story: Story, bad: bool) -> None:
    """More of this in `test_refinement`."""
    story.judge.durable_epochs(THREE, Epoch(1), Epoch(0))
    if not bad:
        story.judge.heard_leader_info(ONE, Epoch(1))
        story.judge.durable_epochs(ONE, Epoch(1), Epoch(0))
        story.judge.said[AckEpoch](ONE, THREE, AckEpoch(Epoch(0), NOTHING, 0))
    story.leads(THREE, 1)


STORIES: Final[tuple[tuple[type[Checker], Bad], ...]] = (
    (OneLeaderPerEpoch, two_leaders),
    (OneLeaderPerEpoch, a_leader_returns_to_its_epoch),
    (OneLeaderPerEpoch, two_say_new_leader),
    (LeaderCompleteness, a_leader_without_what_was_committed),
    (LeaderCompleteness, a_deposed_leader_commits_more),
    (RemovedLeaderEnds, a_leader_that_has_left_proposes),
    (FollowsALeader, a_leader_that_others_speak_of),
    (FollowsALeader, a_leader_of_an_earlier_search),
    (FollowsALeader, a_vote_that_is_not_a_quorum),
    (StepDown, a_leader_that_hears_nobody),
    (SameZxidSameTransaction, one_zxid_two_contents),
    (SameZxidSameTransaction, one_zxid_two_contents_inside_a_batch),
    (LogMatching, one_transaction_two_pasts),
    (Contiguity, a_hole),
    (Contiguity, a_step_back),
    (Contiguity, a_hole_on_the_disk),
    (CommittedStays, committed_is_cut_away),
    (CommittedStays, a_snapshot_older_than_the_log),
    (CommittedStays, cut_at_nowhere),
    (ProcessConsistency, a_phantom),
    (ProcessConsistency, a_phantom_while_serving),
    (DurableBeforeAck, acknowledged_before_durable),
    (DurableBeforeAck, durable_in_a_history_that_is_gone),
    (DurableBeforeAck, epoch_acknowledged_before_durable),
    (DurableBeforeAck, epoch_acknowledged_before_its_history),
    (DurableBeforeAck, promised_before_durable),
    (DurableBeforeAck, announced_before_durable),
    (HistoryBeforeEpoch, epoch_before_history),
    (HistoryBeforeEpoch, restarted_in_an_epoch_without_its_history),
    (EpochsAscend, an_epoch_goes_back),
    (EpochsAscend, adopted_more_than_promised),
    (EpochsAscend, logged_more_than_promised),
    (EpochsAscend, a_promise_is_forgotten),
    (DurableOnQuorum, committed_by_one),
    (DurableOnQuorum, acknowledged_by_one),
    (DurableOnQuorum, a_change_without_the_new_members),
    (DurableOnQuorum, a_lost_disk_uncommits_nothing),
    (AdoptedByQuorum, up_to_date_too_early),
    (PrefixConsistency, committed_beside_the_canon),
    (PrefixConsistency, delivered_beside_the_canon),
    (PrefixConsistency, restored_from_nowhere),
    (TotalOrder, two_orders),
    (Agreement, each_delivers_what_the_other_lacks),
    (Agreement, disagreement_through_a_snapshot),
    (Integrity, delivered_but_never_proposed),
    (Integrity, delivered_with_another_content),
    (Integrity, proposed_twice),
    (CommittedAndDurable, applied_before_committed),
    (CommittedAndDurable, applied_before_durable),
    (CommittedAndDurable, applied_with_a_gap),
    (CommittedAndDurable, believed_but_never_committed),
    (LocalPrimaryOrder, out_of_the_primarys_order),
    (LocalPrimaryOrder, the_primarys_first_is_skipped),
    (LocalPrimaryOrder, a_later_pair_is_out_of_order),
    (LocalPrimaryOrder, skipped_behind_a_snapshot),
    (GlobalPrimaryOrder, epochs_out_of_order),
    (PrimaryIntegrity, broadcasts_before_it_has_delivered),
    (PrimaryIntegrity, a_follower_delivers_more_than_its_primary),
    (RestartIsTheDisk, a_restart_finds_less),
    (RestartIsTheDisk, a_restart_finds_more),
    (RestartIsTheDisk, a_later_write_without_an_earlier),
    (RestartIsTheDisk, a_lost_disk_that_votes),
    (MachineIsHistory, a_state_that_no_history_makes),
    (MachineIsHistory, a_digest_that_no_history_has),
    (MachineIsHistory, a_state_from_nowhere),
    (BarrierIsLinearizable, a_barrier_from_the_past),
    (BarrierIsLinearizable, a_barrier_that_is_not_reached),
    (ServingIsCurrent, serving_an_old_state),
    (ServingIsCurrent, leading_with_an_old_state),
    (ServingIsCurrent, up_to_date_with_what_is_not_committed),
    (NoCrash, it_falls_over),
    (Refinement, a_leader_that_nobody_promised_anything),
)
IDS = [f"{checker.__name__}-{story.__name__}" for checker, story in STORIES]


@pytest.mark.parametrize(("checker", "story"), STORIES, ids=IDS)
def test_it_objects(checker: type[Checker], story: Bad) -> None:
    with pytest.raises(Violation) as caught:
        story(Story(checker), True)
    assert caught.value.promise == checker.promise


@pytest.mark.parametrize(("checker", "story"), STORIES, ids=IDS)
def test_it_does_not_object_without_reason(checker: type[Checker], story: Bad) -> None:
    story(Story(checker), False)


def test_every_checker_has_a_story() -> None:
    assert {checker for checker, _ in STORIES} == set(ALL)


def test_every_promise_has_one_name() -> None:
    assert len({checker.promise for checker in ALL}) == len(ALL)
    assert all(checker.promise for checker in ALL)


def test_a_checker_is_asked_only_for_what_it_wants() -> None:
    judge = Judge(Ghost(ENSEMBLE, 4), [GlobalPrimaryOrder])
    assert [name for name, asked in vars(judge).items() if isinstance(asked, list) and asked] == ["_applied"]
