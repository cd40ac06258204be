"""What logs contain, and what must never be cut out of them."""

from __future__ import annotations

from harness.checkers.history import (
    CommittedStays,
    Contiguity,
    LogMatching,
    ProcessConsistency,
    SameZxidSameTransaction,
)
from tests.histories.zab.story import ONE, THREE, TWO, Story, breaks, z
from zab.core.batch import pack
from zab.core.messages import AckNewLeader, State
from zab.core.ready import Recovered
from zab.core.zxid import NOTHING, Epoch


@breaks(SameZxidSameTransaction)
def one_zxid_two_contents(story: Story, bad: bool) -> None:
    story.logs(pack(z(1, 1), [b"a"]), ONE)
    story.logs(pack(z(1, 1), [b"b" if bad else b"a"]), TWO)


@breaks(SameZxidSameTransaction)
def one_zxid_two_contents_inside_a_batch(story: Story, bad: bool) -> None:
    story.logs(pack(z(1, 1), [b"a", b"b", b"c"]), ONE)
    story.logs(pack(z(1, 1), [b"a"]), TWO)
    story.logs(pack(z(1, 2), [b"x" if bad else b"b", b"c"]), TWO)


@breaks(LogMatching)
def one_transaction_two_pasts(story: Story, bad: bool) -> None:
    story.logs(pack(z(1, 1), [b"a"]), ONE)
    if not bad:
        story.logs(pack(z(1, 1), [b"a"]), TWO)
    story.logs(pack(z(2, 1), [b"b"]), ONE)
    story.logs(pack(z(2, 1), [b"b"]), TWO)


@breaks(Contiguity)
def a_hole(story: Story, bad: bool) -> None:
    story.logs(pack(z(1, 1), [b"a"]), ONE)
    story.logs(pack(z(1, 3 if bad else 2), [b"b"]), ONE)


@breaks(Contiguity)
def a_step_back(story: Story, bad: bool) -> None:
    story.logs(pack(z(2, 1), [b"a"]), ONE)
    story.logs(pack(z(1 if bad else 3, 1), [b"b"]), ONE)


@breaks(Contiguity)
def a_hole_on_the_disk(story: Story, bad: bool) -> None:
    found = (pack(z(1, 1), [b"a"]), pack(z(1, 3 if bad else 2), [b"b"]))
    story.judge.started(ONE, Recovered(Epoch(1), Epoch(1), batches=found), found[-1].last)


@breaks(CommittedStays)
def committed_is_cut_away(story: Story, bad: bool) -> None:
    story.begins()
    if not bad:
        story.logs(story.proposes(THREE, 1, 2), ONE)
    story.judge.truncated(ONE, NOTHING if bad else z(1, 1))


@breaks(CommittedStays)
def a_snapshot_older_than_the_log(story: Story, bad: bool) -> None:
    first = story.begins()
    second = story.proposes(THREE, 1, 2)
    story.logs(second, ONE, TWO, THREE)
    story.judge.committed(THREE, second.last, True)
    story.judge.installed(ONE, first.last if bad else second.last)


@breaks(CommittedStays)
def cut_at_nowhere(story: Story, bad: bool) -> None:
    first = story.begins()
    story.judge.truncated(ONE, z(1, 9) if bad else first.last)


@breaks(ProcessConsistency)
def a_phantom(story: Story, bad: bool) -> None:
    """The learner keeps a transaction that only it has, and is synchronized behind it."""
    story.logs(pack(z(1, 1), [b"phantom"]), *((ONE,) if bad else (ONE, THREE)))
    story.leads(THREE, 2)
    story.judge.said[AckNewLeader](ONE, THREE, AckNewLeader(Epoch(2)))


@breaks(ProcessConsistency)
def a_phantom_while_serving(story: Story, bad: bool) -> None:
    story.logs(pack(z(1, 1), [b"phantom"]), *((ONE,) if bad else (ONE, THREE)))
    story.leads(THREE, 2)
    story.follows(ONE, THREE, 2)


@breaks(CommittedStays)
def what_was_damaged_may_be_cut_away(story: Story, bad: bool) -> None:
    story.begins()
    if not bad:
        story.judge.disk_lost(ONE)
    story.judge.truncated(ONE, NOTHING)


@breaks(CommittedStays)
def a_server_is_healed_by_a_leader_only(story: Story, bad: bool) -> None:
    """By whom it adopts an epoch; what it writes by itself heals nothing."""
    story.begins()
    story.judge.disk_lost(ONE)
    story.judge.durable_epochs(ONE, Epoch(1), Epoch(1), trusted=bad)
    story.judge.truncated(ONE, NOTHING)


def _a_phantom(story: Story) -> None:
    """Server 1 has what nobody else has."""
    story.logs(pack(z(1, 1), [b"phantom"]), ONE)


@breaks(ProcessConsistency)
def a_leader_that_is_gone_has_nothing_to_compare(story: Story, bad: bool) -> None:
    _a_phantom(story)
    story.leads(THREE, 2)
    if not bad:
        story.judge.crashed(THREE)
    story.follows(ONE, THREE, 2)


@breaks(ProcessConsistency)
def a_leader_of_a_later_epoch_has_nothing_to_compare(story: Story, bad: bool) -> None:
    _a_phantom(story)
    story.leads(THREE, 2)
    if not bad:
        story.leads(THREE, 3)
    story.follows(ONE, THREE, 2)


@breaks(ProcessConsistency)
def a_leader_that_is_not_established_has_nothing_to_compare(story: Story, bad: bool) -> None:
    _a_phantom(story)
    if bad:
        story.leads(THREE, 2)
    else:
        story.judge.role(THREE, State.LEADING, Epoch(2), THREE, False)
    story.follows(ONE, THREE, 2)


@breaks(ProcessConsistency)
def compared_is_who_begins_to_serve(story: Story, bad: bool) -> None:
    story.leads(THREE, 2)
    if not bad:
        story.follows(ONE, THREE, 2)
    _a_phantom(story)
    story.judge.role(ONE, State.FOLLOWING, Epoch(2), THREE, True)


@breaks(ProcessConsistency)
def who_serves_under_nobody_is_compared_with_nobody(story: Story, bad: bool) -> None:
    _a_phantom(story)
    story.leads(THREE, 2)
    story.judge.role(ONE, State.LOOKING, Epoch(2), THREE if bad else None, True)
