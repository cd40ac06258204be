"""Barriers, serving servers, and crashes."""

from __future__ import annotations

from harness.checkers.service import BarrierIsLinearizable, HistoriesAgree, NoCrash, ServingIsCurrent
from tests.histories.zab.scenario import ONE, THREE, TWO, Scenario, breaks, z
from zab.core.messages import UpToDate
from zab.core.zxid import NOTHING


@breaks(BarrierIsLinearizable)
def barrier_from_the_past(s: Scenario, bad: bool) -> None:
    first = s.begins()
    s.judge.acknowledged(THREE, first.last)
    s.judge.barrier_asked(ONE, 7)
    s.judge.barrier_answered(ONE, 7, NOTHING if bad else first.last)


@breaks(BarrierIsLinearizable)
def barrier_that_is_not_reached(s: Scenario, bad: bool) -> None:
    first = s.begins()
    if bad:
        s.judge.restored(ONE, NOTHING)
    s.judge.barrier_asked(ONE, 7)
    s.judge.barrier_answered(ONE, 7, first.last)


@breaks(BarrierIsLinearizable)
def barrier_before_the_readable_state(s: Scenario, bad: bool) -> None:
    """A client of server 1 has read it, although no leader has acknowledged it to a client."""
    first = s.begins()
    s.judge.acknowledged(THREE, first.last)
    second = s.proposes(THREE, 1, 2)
    s.logs(second, ONE, TWO, THREE)
    s.commits(THREE, second.last)
    s.applies(second, ONE, TWO)
    s.judge.barrier_asked(TWO, 7)
    s.judge.barrier_answered(TWO, 7, first.last if bad else second.last)


@breaks(ServingIsCurrent)
def leading_with_an_old_state(s: Scenario, bad: bool) -> None:
    s.begins()
    second = s.proposes(THREE, 1, 2)
    s.logs(second, ONE, TWO, THREE)
    s.judge.committed(THREE, second.last, True)
    s.epochs(2, ONE, TWO)
    s.leads(TWO, 2)
    if not bad:
        s.applies(second, TWO)
    s.judge.serves(TWO)


@breaks(ServingIsCurrent)
def serving_an_old_state(s: Scenario, bad: bool) -> None:
    first = s.begins()
    s.judge.said[UpToDate](THREE, ONE, UpToDate(first.last))
    s.follows(ONE, THREE, 1)
    if bad:
        s.judge.restored(ONE, NOTHING)
    s.judge.serves(ONE)


@breaks(ServingIsCurrent)
def up_to_date_with_an_uncommitted_transaction(s: Scenario, bad: bool) -> None:
    first = s.begins()
    s.logs(s.proposes(THREE, 1, 2), THREE)
    s.judge.said[UpToDate](THREE, ONE, UpToDate(z(1, 2) if bad else first.last))


@breaks(NoCrash)
def machine_raises_an_exception(s: Scenario, bad: bool) -> None:
    if bad:
        s.judge.failed(ONE, "ticks", ZeroDivisionError("oops"))


@breaks(NoCrash)
def undurable_state_is_lost_with_the_process(s: Scenario, bad: bool) -> None:
    first = s.begins()
    s.logs(s.proposes(THREE, 1, 2), ONE, durably=False)
    if bad:
        s.judge.failed(ONE, "steps", RuntimeError(str(first.last)))
    s.judge.crashed(ONE)


@breaks(HistoriesAgree)
def two_histories(s: Scenario, bad: bool) -> None:
    s.begins()
    if bad:
        s.judge.contradicted(ONE, "finds another one")
