"""Contents of logs, and transactions that must never be truncated."""

from __future__ import annotations

from harness.checkers.history import (
    CommittedStays,
    Contiguity,
    LogMatching,
    ProcessConsistency,
    SameZxidSameTransaction,
)
from tests.histories.zab.scenario import ONE, THREE, TWO, Scenario, breaks, z
from zab.core.batch import pack
from zab.core.messages import AckNewLeader, State
from zab.core.ready import Recovered
from zab.core.zxid import NOTHING, Epoch


@breaks(SameZxidSameTransaction)
def one_zxid_two_contents(s: Scenario, bad: bool) -> None:
    s.logs(pack(z(1, 1), [b"a"]), ONE)
    s.logs(pack(z(1, 1), [b"b" if bad else b"a"]), TWO)


@breaks(SameZxidSameTransaction)
def one_zxid_two_contents_inside_a_batch(s: Scenario, bad: bool) -> None:
    s.logs(pack(z(1, 1), [b"a", b"b", b"c"]), ONE)
    s.logs(pack(z(1, 1), [b"a"]), TWO)
    s.logs(pack(z(1, 2), [b"x" if bad else b"b", b"c"]), TWO)


@breaks(LogMatching)
def one_transaction_two_pasts(s: Scenario, bad: bool) -> None:
    s.logs(pack(z(1, 1), [b"a"]), ONE)
    if not bad:
        s.logs(pack(z(1, 1), [b"a"]), TWO)
    s.logs(pack(z(2, 1), [b"b"]), ONE)
    s.logs(pack(z(2, 1), [b"b"]), TWO)


@breaks(Contiguity)
def hole(s: Scenario, bad: bool) -> None:
    s.logs(pack(z(1, 1), [b"a"]), ONE)
    s.logs(pack(z(1, 3 if bad else 2), [b"b"]), ONE)


@breaks(Contiguity)
def step_back(s: Scenario, bad: bool) -> None:
    s.logs(pack(z(2, 1), [b"a"]), ONE)
    s.logs(pack(z(1 if bad else 3, 1), [b"b"]), ONE)


@breaks(Contiguity)
def hole_on_the_disk(s: Scenario, bad: bool) -> None:
    found = (pack(z(1, 1), [b"a"]), pack(z(1, 3 if bad else 2), [b"b"]))
    s.judge.started(ONE, Recovered(Epoch(1), Epoch(1), batches=found), found[-1].last)


@breaks(CommittedStays)
def committed_is_cut_away(s: Scenario, bad: bool) -> None:
    s.begins()
    if not bad:
        s.logs(s.proposes(THREE, 1, 2), ONE)
    s.judge.truncated(ONE, NOTHING if bad else z(1, 1))


@breaks(CommittedStays)
def snapshot_older_than_the_log(s: Scenario, bad: bool) -> None:
    first = s.begins()
    second = s.proposes(THREE, 1, 2)
    s.logs(second, ONE, TWO, THREE)
    s.judge.committed(THREE, second.last, True)
    s.judge.installed(ONE, first.last if bad else second.last)


@breaks(CommittedStays)
def cut_at_nowhere(s: Scenario, bad: bool) -> None:
    first = s.begins()
    s.judge.truncated(ONE, z(1, 9) if bad else first.last)


@breaks(ProcessConsistency)
def phantom(s: Scenario, bad: bool) -> None:
    """The learner keeps a transaction that only it has, and is synchronized after it."""
    s.logs(pack(z(1, 1), [b"phantom"]), *((ONE,) if bad else (ONE, THREE)))
    s.leads(THREE, 2)
    s.judge.said[AckNewLeader](ONE, THREE, AckNewLeader(Epoch(2)))


@breaks(ProcessConsistency)
def phantom_while_serving(s: Scenario, bad: bool) -> None:
    s.logs(pack(z(1, 1), [b"phantom"]), *((ONE,) if bad else (ONE, THREE)))
    s.leads(THREE, 2)
    s.follows(ONE, THREE, 2)


@breaks(CommittedStays)
def damaged_log_may_be_truncated(s: Scenario, bad: bool) -> None:
    s.begins()
    if not bad:
        s.judge.disk_lost(ONE)
    s.judge.truncated(ONE, NOTHING)


@breaks(CommittedStays)
def server_is_healed_by_a_leader_only(s: Scenario, bad: bool) -> None:
    """Only the adoption of a leader's epoch heals a disk; a server's own writes do not."""
    s.begins()
    s.judge.disk_lost(ONE)
    s.judge.durable_epochs(ONE, Epoch(1), Epoch(1), trusted=bad)
    s.judge.truncated(ONE, NOTHING)


def _a_phantom(s: Scenario) -> None:
    """Server 1 has a transaction that no other server has."""
    s.logs(pack(z(1, 1), [b"phantom"]), ONE)


@breaks(ProcessConsistency)
def leader_that_is_gone_has_nothing_to_compare(s: Scenario, bad: bool) -> None:
    _a_phantom(s)
    s.leads(THREE, 2)
    if not bad:
        s.judge.crashed(THREE)
    s.follows(ONE, THREE, 2)


@breaks(ProcessConsistency)
def leader_of_a_later_epoch_has_nothing_to_compare(s: Scenario, bad: bool) -> None:
    _a_phantom(s)
    s.leads(THREE, 2)
    if not bad:
        s.leads(THREE, 3)
    s.follows(ONE, THREE, 2)


@breaks(ProcessConsistency)
def leader_that_is_not_established_has_nothing_to_compare(s: Scenario, bad: bool) -> None:
    _a_phantom(s)
    if bad:
        s.leads(THREE, 2)
    else:
        s.judge.role(THREE, State.LEADING, Epoch(2), THREE, False)
    s.follows(ONE, THREE, 2)


@breaks(ProcessConsistency)
def comparison_at_the_begin_of_serving(s: Scenario, bad: bool) -> None:
    s.leads(THREE, 2)
    if not bad:
        s.follows(ONE, THREE, 2)
    _a_phantom(s)
    s.judge.role(ONE, State.FOLLOWING, Epoch(2), THREE, True)


@breaks(ProcessConsistency)
def server_without_a_leader_is_not_compared(s: Scenario, bad: bool) -> None:
    _a_phantom(s)
    s.leads(THREE, 2)
    s.judge.role(ONE, State.LOOKING, Epoch(2), THREE if bad else None, True)
