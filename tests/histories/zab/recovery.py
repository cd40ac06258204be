"""Recovered state after a restart, and states of machines."""

from __future__ import annotations

from harness.checkers.recovery import KeptSnapshotsServe, MachineIsHistory, NothingNeedlessStays, RestartIsTheDisk
from harness.worlds.cores.machine import Machine
from tests.histories.zab.scenario import ENSEMBLE, ONE, THREE, TWO, Scenario, batch, breaks, z
from zab.core.batch import Batch, digest_of, pack
from zab.core.ready import Append, BeginSnapshot, Recovered, SaveEpochs, Truncate, Write
from zab.core.zxid import NOTHING, Epoch


@breaks(RestartIsTheDisk)
def restart_finds_less(s: Scenario, bad: bool) -> None:
    first = s.begins()
    s.judge.crashed(ONE)
    s.judge.started(ONE, Recovered(Epoch(1), Epoch(1), batches=() if bad else (first,)), NOTHING if bad else first.last)


@breaks(RestartIsTheDisk)
def restart_finds_more(s: Scenario, bad: bool) -> None:
    first = s.begins()
    second = s.proposes(THREE, 1, 2)
    s.logs(second, ONE, durably=False)
    s.judge.crashed(ONE, [] if bad else [Append(1, second)])
    s.judge.started(ONE, Recovered(Epoch(1), Epoch(1), batches=(first, second)), second.last)


@breaks(RestartIsTheDisk)
def later_write_without_an_earlier(s: Scenario, bad: bool) -> None:
    first = s.begins()
    second = s.proposes(THREE, 1, 2)
    writes: list[Write] = [Append(1, second), SaveEpochs(2, Epoch(3), Epoch(1), ENSEMBLE)]
    s.judge.crashed(ONE, writes)
    found = (first,) if bad else (first, second)
    s.judge.started(ONE, Recovered(Epoch(3), Epoch(1), batches=found), found[-1].last)


@breaks(RestartIsTheDisk)
def lost_disk_that_votes(s: Scenario, bad: bool) -> None:
    s.begins()
    s.judge.disk_lost(ONE)
    s.judge.crashed(ONE)
    s.judge.started(ONE, Recovered(Epoch(0), Epoch(0), voting=bad), NOTHING)


@breaks(RestartIsTheDisk)
def sound_disk_that_does_not_vote(s: Scenario, bad: bool) -> None:
    first = s.begins()
    s.judge.crashed(ONE)
    s.judge.started(ONE, Recovered(Epoch(1), Epoch(1), batches=(first,), voting=not bad), first.last)


@breaks(RestartIsTheDisk)
def log_that_could_not_be_read_for_once(s: Scenario, bad: bool) -> None:
    first = s.begins()
    s.judge.disk_lost(ONE)
    s.judge.crashed(ONE)
    s.restarts(ONE, 1, voting=False)
    s.judge.crashed(ONE)
    s.restarts(ONE, 1, first, *((batch(1, 2),) if bad else ()))


@breaks(RestartIsTheDisk)
def log_that_was_read_and_was_empty(s: Scenario, bad: bool) -> None:
    """The log was unreadable before: its former contents do not return."""
    first = s.begins()
    s.judge.disk_lost(ONE)
    s.judge.crashed(ONE)
    s.restarts(ONE, 1, voting=False)
    s.judge.crashed(ONE)
    s.restarts(ONE, 1)
    s.judge.crashed(ONE)
    s.restarts(ONE, 1, *((first,) if bad else ()))


@breaks(RestartIsTheDisk)
def outstanding_write_does_not_appear_later(s: Scenario, bad: bool) -> None:
    first = s.begins()
    second = s.proposes(THREE, 1, 2)
    s.judge.crashed(ONE, [Append(1, second)])
    s.restarts(ONE, 1, first)
    s.judge.crashed(ONE)
    s.restarts(ONE, 1, first, *((second,) if bad else ()))


@breaks(KeptSnapshotsServe)
def kept_snapshot_without_its_log(s: Scenario, bad: bool) -> None:
    s.judge.purged(ONE, z(1, 4), z(1, 5 if bad else 4))


@breaks(KeptSnapshotsServe)
def kept_snapshot_beside_a_damaged_log(s: Scenario, bad: bool) -> None:
    if not bad:
        s.judge.disk_lost(ONE)
    s.judge.purged(ONE, z(1, 4), z(1, 5))


@breaks(NothingNeedlessStays)
def needless_file_remains(s: Scenario, bad: bool) -> None:
    """It may remain behind two snapshots, because one of the kept ones was unreadable."""
    for counter in (4, 6, 8) if bad else (4, 6):
        s.judge.stays(ONE, z(1, counter), ["log.1", "log.2"])


@breaks(NothingNeedlessStays)
def file_stays_and_the_others_go(s: Scenario, bad: bool) -> None:
    s.judge.stays(ONE, z(1, 4), ["log.1", "log.2"])
    s.judge.stays(ONE, z(1, 6), ["log.2" if bad else "log.1"])
    s.judge.stays(ONE, z(1, 8), ["log.2"])


@breaks(NothingNeedlessStays)
def same_snapshot_again(s: Scenario, bad: bool) -> None:
    for counter in (4, 6, 8 if bad else 6):
        s.judge.stays(ONE, z(1, counter), ["log.1"])


@breaks(NothingNeedlessStays)
def needless_in_another_life(s: Scenario, bad: bool) -> None:
    first = s.begins()
    for counter in (4, 6):
        s.judge.stays(ONE, z(1, counter), ["log.1"])
    if not bad:
        s.restarts(ONE, 1, first)
    s.judge.stays(ONE, z(1, 8), ["log.1"])


@breaks(NothingNeedlessStays)
def needless_beside_what_is_damaged(s: Scenario, bad: bool) -> None:
    """Earlier contents are not counted on."""
    s.judge.stays(ONE, z(1, 4), ["log.1"])
    if not bad:
        s.judge.disk_lost(ONE)
    s.judge.stays(ONE, z(1, 6), ["log.1"])
    s.judge.durable_epochs(ONE, Epoch(1), Epoch(1))
    for counter in (8, 10):
        s.judge.stays(ONE, z(1, counter), ["log.1"])


@breaks(MachineIsHistory)
def state_that_no_history_makes(s: Scenario, bad: bool) -> None:
    first = s.begins()
    machine = Machine()
    machine.apply(pack(first.first, [b"x"]) if bad else first)
    s.judge.machine(ONE, machine.zxid, machine.digest, digest_of(first.payloads(), 0))


@breaks(MachineIsHistory)
def digest_that_no_history_has(s: Scenario, bad: bool) -> None:
    first = s.begins()
    machine = Machine()
    machine.apply(first)
    s.judge.machine(ONE, machine.zxid, machine.digest, 1 if bad else digest_of(first.payloads(), 0))


@breaks(MachineIsHistory)
def state_from_nowhere(s: Scenario, bad: bool) -> None:
    first = s.begins()
    machine = Machine()
    machine.apply(first)
    s.judge.machine(ONE, z(1, 5) if bad else machine.zxid, machine.digest, digest_of(first.payloads(), 0))


@breaks(RestartIsTheDisk)
def cut_that_was_under_way(s: Scenario, bad: bool) -> None:
    first = s.begins()
    second = s.proposes(THREE, 1, 2)
    s.logs(second, ONE)
    s.judge.crashed(ONE, [] if bad else [Truncate(1, first.last)])
    s.restarts(ONE, 1, first)


@breaks(RestartIsTheDisk)
def unwritten_state_was_not_outstanding(s: Scenario, bad: bool) -> None:
    """Two writes, one of which has no history; the message names each state once."""
    first = s.begins()
    second = s.proposes(THREE, 1, 2)
    s.judge.crashed(ONE, [BeginSnapshot(1, first.last), Append(2, second)])
    s.restarts(ONE, 1, *(() if bad else (first, second)))


@breaks(RestartIsTheDisk)
def whole_disk_that_does_not_vote(s: Scenario, bad: bool) -> None:
    s.begins()
    if not bad:
        s.judge.disk_lost(ONE)
    s.judge.crashed(ONE)
    s.restarts(ONE, 0, voting=False)


@breaks(RestartIsTheDisk)
def server_with_a_transaction_has_adopted_its_epoch(s: Scenario, bad: bool) -> None:
    """It may report the epoch, even if its disk does not have it yet."""
    first = batch(1, 1)
    s.judge.durable_epochs(ONE, Epoch(1), Epoch(0))
    s.logs(first, ONE)
    s.judge.crashed(ONE, [Append(1, batch(1, 2))])
    found = (first,) if not bad else ()
    s.restarts(ONE, 1, *found)


@breaks(RestartIsTheDisk)
def epoch_that_is_not_adopted_need_not_be(s: Scenario, bad: bool) -> None:
    first = batch(1, 1)
    s.judge.durable_epochs(ONE, Epoch(1), Epoch(0))
    s.logs(first, ONE)
    s.judge.crashed(ONE)
    s.judge.started(ONE, Recovered(Epoch(2 if bad else 1), Epoch(0), batches=(first,)), first.last)


def _newer(s: Scenario) -> tuple[Batch, Batch]:
    """Server 1 has promised and adopted epoch 3, and has two transactions; then its disk is restored to an old
    state."""
    first = s.begins()
    second = s.proposes(THREE, 1, 2)
    s.logs(second, ONE)
    s.epochs(3, ONE)
    s.judge.disk_went_back(ONE)
    s.judge.crashed(ONE)
    return first, second


@breaks(RestartIsTheDisk)
def restored_disk_has_a_former_state(s: Scenario, bad: bool) -> None:
    first, second = _newer(s)
    s.restarts(ONE, 1, first, second)
    s.judge.crashed(ONE)
    s.restarts(ONE, 1, first, *(() if bad else (second,)))


@breaks(RestartIsTheDisk)
def disk_went_back_to_a_promise_that_was_never_made(s: Scenario, bad: bool) -> None:
    first, _ = _newer(s)
    s.judge.started(ONE, Recovered(Epoch(4 if bad else 3), Epoch(1), batches=(first,)), first.last)


@breaks(RestartIsTheDisk)
def disk_went_back_to_an_epoch_that_was_never_adopted(s: Scenario, bad: bool) -> None:
    first, _ = _newer(s)
    s.judge.started(ONE, Recovered(Epoch(3), Epoch(4 if bad else 3), batches=(first,)), first.last)


@breaks(RestartIsTheDisk)
def disk_went_back_to_a_history_that_never_was(s: Scenario, bad: bool) -> None:
    first, second = _newer(s)
    s.restarts(ONE, 1, first, *((second, batch(1, 3)) if bad else (second,)))


@breaks(RestartIsTheDisk)
def disk_that_went_back_and_does_not_vote(s: Scenario, bad: bool) -> None:
    _newer(s)
    s.restarts(ONE, 9, voting=bad)


@breaks(RestartIsTheDisk)
def of_two_copies_the_newer_is_put_back_later(s: Scenario, bad: bool) -> None:
    first, second = _newer(s)
    s.restarts(ONE, 1, first)
    s.judge.disk_went_back(ONE)
    s.judge.crashed(ONE)
    s.restarts(ONE, 4 if bad else 3, first, second)


@breaks(MachineIsHistory)
def states_of_several(s: Scenario, bad: bool) -> None:
    """The second is checked before the first."""
    first = s.begins()
    second = s.proposes(THREE, 1, 2, b"a", b"b")
    s.logs(second, ONE, TWO, THREE)
    s.commits(THREE, second.last)
    machine = Machine()
    machine.apply(first)
    then = machine.digest
    machine.apply(second)
    digest = digest_of(first.payloads(), 0)
    s.judge.machine(ONE, second.last, machine.digest, digest_of(second.payloads(), digest))
    s.judge.machine(ONE, first.last, machine.digest if bad else then, digest)
