"""What a restart finds, and what machines hold."""

from __future__ import annotations

from harness.checkers.recovery import KeptSnapshotsServe, MachineIsHistory, NothingNeedlessStays, RestartIsTheDisk
from harness.worlds.cores.machine import Machine
from tests.histories.zab.story import ENSEMBLE, ONE, THREE, TWO, Story, batch, breaks, z
from zab.core.batch import Batch, digest_of, pack
from zab.core.ready import Append, BeginSnapshot, Recovered, SaveEpochs, Truncate, Write
from zab.core.zxid import NOTHING, Epoch


@breaks(RestartIsTheDisk)
def a_restart_finds_less(story: Story, bad: bool) -> None:
    first = story.begins()
    story.judge.crashed(ONE)
    story.judge.started(
        ONE, Recovered(Epoch(1), Epoch(1), batches=() if bad else (first,)), NOTHING if bad else first.last
    )


@breaks(RestartIsTheDisk)
def a_restart_finds_more(story: Story, bad: bool) -> None:
    first = story.begins()
    second = story.proposes(THREE, 1, 2)
    story.logs(second, ONE, durably=False)
    story.judge.crashed(ONE, [] if bad else [Append(1, second)])
    story.judge.started(ONE, Recovered(Epoch(1), Epoch(1), batches=(first, second)), second.last)


@breaks(RestartIsTheDisk)
def a_later_write_without_an_earlier(story: Story, bad: bool) -> None:
    first = story.begins()
    second = story.proposes(THREE, 1, 2)
    writes: list[Write] = [Append(1, second), SaveEpochs(2, Epoch(3), Epoch(1), ENSEMBLE)]
    story.judge.crashed(ONE, writes)
    found = (first,) if bad else (first, second)
    story.judge.started(ONE, Recovered(Epoch(3), Epoch(1), batches=found), found[-1].last)


@breaks(RestartIsTheDisk)
def a_lost_disk_that_votes(story: Story, bad: bool) -> None:
    story.begins()
    story.judge.disk_lost(ONE)
    story.judge.crashed(ONE)
    story.judge.started(ONE, Recovered(Epoch(0), Epoch(0), voting=bad), NOTHING)


@breaks(RestartIsTheDisk)
def a_sound_disk_that_does_not_vote(story: Story, bad: bool) -> None:
    first = story.begins()
    story.judge.crashed(ONE)
    story.judge.started(ONE, Recovered(Epoch(1), Epoch(1), batches=(first,), voting=not bad), first.last)


@breaks(RestartIsTheDisk)
def a_log_that_could_not_be_read_for_once(story: Story, bad: bool) -> None:
    first = story.begins()
    story.judge.disk_lost(ONE)
    story.judge.crashed(ONE)
    story.restarts(ONE, 1, voting=False)
    story.judge.crashed(ONE)
    story.restarts(ONE, 1, first, *((batch(1, 2),) if bad else ()))


@breaks(RestartIsTheDisk)
def a_log_that_was_read_and_was_empty(story: Story, bad: bool) -> None:
    """It could not be read before: what may have been there then does not come back any more."""
    first = story.begins()
    story.judge.disk_lost(ONE)
    story.judge.crashed(ONE)
    story.restarts(ONE, 1, voting=False)
    story.judge.crashed(ONE)
    story.restarts(ONE, 1)
    story.judge.crashed(ONE)
    story.restarts(ONE, 1, *((first,) if bad else ()))


@breaks(RestartIsTheDisk)
def what_was_under_way_does_not_come_later(story: Story, bad: bool) -> None:
    first = story.begins()
    second = story.proposes(THREE, 1, 2)
    story.judge.crashed(ONE, [Append(1, second)])
    story.restarts(ONE, 1, first)
    story.judge.crashed(ONE)
    story.restarts(ONE, 1, first, *((second,) if bad else ()))


@breaks(KeptSnapshotsServe)
def a_kept_snapshot_without_its_log(story: Story, bad: bool) -> None:
    story.judge.purged(ONE, z(1, 4), z(1, 5 if bad else 4))


@breaks(KeptSnapshotsServe)
def a_kept_snapshot_beside_a_damaged_log(story: Story, bad: bool) -> None:
    if not bad:
        story.judge.disk_lost(ONE)
    story.judge.purged(ONE, z(1, 4), z(1, 5))


@breaks(NothingNeedlessStays)
def a_file_that_nobody_needs_stays(story: Story, bad: bool) -> None:
    """Behind two snapshots it may, for one of those that are kept could not be read."""
    for counter in (4, 6, 8) if bad else (4, 6):
        story.judge.stays(ONE, z(1, counter), ["log.1", "log.2"])


@breaks(NothingNeedlessStays)
def a_file_stays_and_the_others_go(story: Story, bad: bool) -> None:
    story.judge.stays(ONE, z(1, 4), ["log.1", "log.2"])
    story.judge.stays(ONE, z(1, 6), ["log.2" if bad else "log.1"])
    story.judge.stays(ONE, z(1, 8), ["log.2"])


@breaks(NothingNeedlessStays)
def the_same_snapshot_again(story: Story, bad: bool) -> None:
    for counter in (4, 6, 8 if bad else 6):
        story.judge.stays(ONE, z(1, counter), ["log.1"])


@breaks(NothingNeedlessStays)
def needless_in_another_life(story: Story, bad: bool) -> None:
    first = story.begins()
    for counter in (4, 6):
        story.judge.stays(ONE, z(1, counter), ["log.1"])
    if not bad:
        story.restarts(ONE, 1, first)
    story.judge.stays(ONE, z(1, 8), ["log.1"])


@breaks(NothingNeedlessStays)
def needless_beside_what_is_damaged(story: Story, bad: bool) -> None:
    """And what stood there before it was is not counted on."""
    story.judge.stays(ONE, z(1, 4), ["log.1"])
    if not bad:
        story.judge.disk_lost(ONE)
    story.judge.stays(ONE, z(1, 6), ["log.1"])
    story.judge.durable_epochs(ONE, Epoch(1), Epoch(1))
    for counter in (8, 10):
        story.judge.stays(ONE, z(1, counter), ["log.1"])


@breaks(MachineIsHistory)
def a_state_that_no_history_makes(story: Story, bad: bool) -> None:
    first = story.begins()
    machine = Machine()
    machine.apply(pack(first.first, [b"x"]) if bad else first)
    story.judge.machine(ONE, machine.zxid, machine.digest, digest_of(first.payloads(), 0))


@breaks(MachineIsHistory)
def a_digest_that_no_history_has(story: Story, bad: bool) -> None:
    first = story.begins()
    machine = Machine()
    machine.apply(first)
    story.judge.machine(ONE, machine.zxid, machine.digest, 1 if bad else digest_of(first.payloads(), 0))


@breaks(MachineIsHistory)
def a_state_from_nowhere(story: Story, bad: bool) -> None:
    first = story.begins()
    machine = Machine()
    machine.apply(first)
    story.judge.machine(ONE, z(1, 5) if bad else machine.zxid, machine.digest, digest_of(first.payloads(), 0))


@breaks(RestartIsTheDisk)
def a_cut_that_was_under_way(story: Story, bad: bool) -> None:
    first = story.begins()
    second = story.proposes(THREE, 1, 2)
    story.logs(second, ONE)
    story.judge.crashed(ONE, [] if bad else [Truncate(1, first.last)])
    story.restarts(ONE, 1, first)


@breaks(RestartIsTheDisk)
def what_no_write_did_was_not_under_way(story: Story, bad: bool) -> None:
    """Two writes, of which the one says nothing of history; the words name each state once."""
    first = story.begins()
    second = story.proposes(THREE, 1, 2)
    story.judge.crashed(ONE, [BeginSnapshot(1, first.last), Append(2, second)])
    story.restarts(ONE, 1, *(() if bad else (first, second)))


@breaks(RestartIsTheDisk)
def a_whole_disk_that_does_not_vote(story: Story, bad: bool) -> None:
    story.begins()
    if not bad:
        story.judge.disk_lost(ONE)
    story.judge.crashed(ONE)
    story.restarts(ONE, 0, voting=False)


@breaks(RestartIsTheDisk)
def who_holds_a_transaction_has_adopted_its_epoch(story: Story, bad: bool) -> None:
    """It may say so, even if its disk does not yet."""
    first = batch(1, 1)
    story.judge.durable_epochs(ONE, Epoch(1), Epoch(0))
    story.logs(first, ONE)
    story.judge.crashed(ONE, [Append(1, batch(1, 2))])
    found = (first,) if not bad else ()
    story.restarts(ONE, 1, *found)


@breaks(RestartIsTheDisk)
def an_epoch_that_is_not_adopted_need_not_be(story: Story, bad: bool) -> None:
    first = batch(1, 1)
    story.judge.durable_epochs(ONE, Epoch(1), Epoch(0))
    story.logs(first, ONE)
    story.judge.crashed(ONE)
    story.judge.started(ONE, Recovered(Epoch(2 if bad else 1), Epoch(0), batches=(first,)), first.last)


def _newer(story: Story) -> tuple[Batch, Batch]:
    """Server 1 has promised and adopted epoch 3, and has two transactions; then its disk is put back."""
    first = story.begins()
    second = story.proposes(THREE, 1, 2)
    story.logs(second, ONE)
    story.epochs(3, ONE)
    story.judge.disk_went_back(ONE)
    story.judge.crashed(ONE)
    return first, second


@breaks(RestartIsTheDisk)
def a_disk_that_went_back_finds_what_was(story: Story, bad: bool) -> None:
    first, second = _newer(story)
    story.restarts(ONE, 1, first, second)
    story.judge.crashed(ONE)
    story.restarts(ONE, 1, first, *(() if bad else (second,)))


@breaks(RestartIsTheDisk)
def a_disk_went_back_to_a_promise_that_was_never_made(story: Story, bad: bool) -> None:
    first, _ = _newer(story)
    story.judge.started(ONE, Recovered(Epoch(4 if bad else 3), Epoch(1), batches=(first,)), first.last)


@breaks(RestartIsTheDisk)
def a_disk_went_back_to_an_epoch_that_was_never_adopted(story: Story, bad: bool) -> None:
    first, _ = _newer(story)
    story.judge.started(ONE, Recovered(Epoch(3), Epoch(4 if bad else 3), batches=(first,)), first.last)


@breaks(RestartIsTheDisk)
def a_disk_went_back_to_a_history_that_never_was(story: Story, bad: bool) -> None:
    first, second = _newer(story)
    story.restarts(ONE, 1, first, *((second, batch(1, 3)) if bad else (second,)))


@breaks(RestartIsTheDisk)
def a_disk_that_went_back_and_does_not_vote(story: Story, bad: bool) -> None:
    _newer(story)
    story.restarts(ONE, 9, voting=bad)


@breaks(RestartIsTheDisk)
def of_two_copies_the_newer_is_put_back_later(story: Story, bad: bool) -> None:
    first, second = _newer(story)
    story.restarts(ONE, 1, first)
    story.judge.disk_went_back(ONE)
    story.judge.crashed(ONE)
    story.restarts(ONE, 4 if bad else 3, first, second)


@breaks(MachineIsHistory)
def states_of_several(story: Story, bad: bool) -> None:
    """Asked of the second before the first."""
    first = story.begins()
    second = story.proposes(THREE, 1, 2, b"a", b"b")
    story.logs(second, ONE, TWO, THREE)
    story.commits(THREE, second.last)
    machine = Machine()
    machine.apply(first)
    then = machine.digest
    machine.apply(second)
    digest = digest_of(first.payloads(), 0)
    story.judge.machine(ONE, second.last, machine.digest, digest_of(second.payloads(), digest))
    story.judge.machine(ONE, first.last, machine.digest if bad else then, digest)
