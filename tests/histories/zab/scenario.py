"""Scenarios of servers, their vocabulary, and the verdicts of all checkers.

    @breaks(OneLeaderPerEpoch)
    def two_leaders(s: Scenario, bad: bool) -> None:
        s.leads(THREE, 1)
        s.leads(TWO, 1 if bad else 2)

Each example exists twice: as a legal run, and with `bad` as a run with one violation of the invariant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from attrs import frozen

from harness.checkers import ALL, Checker, Judge, OracleState, Refinement, Violation
from harness.checkers.specification import Action
from harness.members import member
from zab.core.batch import Batch, pack
from zab.core.ensemble import Ensemble, Role
from zab.core.messages import Ack, AckEpoch, AckNewLeader, LeaderInfo, NewLeader, State, UpToDate
from zab.core.ready import Recovered
from zab.core.zxid import NOTHING, Epoch, ServerId, Zxid, epoch_of, make

ONE, TWO, THREE, FOUR = ServerId(1), ServerId(2), ServerId(3), ServerId(4)
ENSEMBLE: Final = Ensemble((member(ONE), member(TWO), member(THREE), member(FOUR, Role.OBSERVER)))


def z(epoch: int, counter: int) -> Zxid:
    return make(epoch, counter)


def batch(epoch: int, counter: int, *payloads: bytes) -> Batch:
    return pack(z(epoch, counter), payloads or (b"%d/%d" % (epoch, counter),))


class Scenario:
    """A judge with methods for common sequences of events."""

    def __init__(self, *checkers: type[Checker], judged_by: type[Judge] = Judge) -> None:
        self.ghost = OracleState(ENSEMBLE, 4)
        self.checks_of_serving = 0
        """The number of checks of the serving servers."""
        self.judge = judged_by(self.ghost, checkers, self._serving_checked)
        for sid in (ONE, TWO, THREE, FOUR):
            self.judge.started(sid, Recovered(Epoch(0), Epoch(0)), NOTHING)

    def _serving_checked(self) -> None:
        self.checks_of_serving += 1

    # -- common sequences --------------------------------------------------------------------------

    def epochs(self, epoch: int, *servers: ServerId) -> None:
        for sid in servers:
            self.judge.durable_epochs(sid, Epoch(epoch), Epoch(epoch))

    def leads(self, sid: ServerId, epoch: int) -> None:
        """Elect a leader, which establishes its epoch and serves."""
        before = self.ghost.servers[sid].epoch
        self.judge.role(sid, State.LOOKING, before, None, False)
        self.judge.role(sid, State.LEADING, before, sid, False)
        self.judge.role(sid, State.LEADING, Epoch(epoch), sid, False)
        self.judge.role(sid, State.LEADING, Epoch(epoch), sid, True)

    def follows(self, sid: ServerId, leader: ServerId, epoch: int) -> None:
        self.judge.role(sid, State.FOLLOWING, Epoch(epoch), leader, False)
        self.judge.role(sid, State.FOLLOWING, Epoch(epoch), leader, True)

    def proposes(self, sid: ServerId, epoch: int, counter: int, *payloads: bytes) -> Batch:
        made = batch(epoch, counter, *payloads)
        self.judge.proposed(sid, made.first, made.payloads())
        self.judge.broadcasts(sid, Epoch(epoch))
        return made

    def logs(self, made: Batch, *servers: ServerId, durably: bool = True) -> None:
        for sid in servers:
            self.judge.appended(sid, made)
            if durably:
                self.judge.durable_append(sid, made)

    def commits(self, sid: ServerId, zxid: Zxid) -> None:
        self.judge.committed(sid, zxid, True)

    def applies(self, made: Batch, *servers: ServerId) -> None:
        for sid in servers:
            self.judge.applied(sid, made)

    def begins(self) -> Batch:
        """Let server 3 lead epoch 1, in which all servers have applied 1/1."""
        self.epochs(1, ONE, TWO, THREE)
        self.leads(THREE, 1)
        first = self.proposes(THREE, 1, 1)
        self.logs(first, ONE, TWO, THREE)
        self.commits(THREE, first.last)
        self.applies(first, ONE, TWO, THREE)
        return first

    def restarts(self, sid: ServerId, epoch: int, *found: Batch, voting: bool = True) -> None:
        last = found[-1].last if found else NOTHING
        self.judge.started(sid, Recovered(Epoch(epoch), Epoch(epoch), batches=found, voting=voting), last)

    # -- step by step ------------------------------------------------------------------------------

    def seeks(self, leader: ServerId, epoch: int) -> None:
        """Become a candidate, and make the promise of the epoch durable."""
        self.judge.role(leader, State.LEADING, self.ghost.servers[leader].current, leader, False)
        self.judge.durable_epochs(leader, Epoch(epoch), self.ghost.servers[leader].current)

    def promises(
        self, sid: ServerId, leader: ServerId, epoch: int, *, last: Zxid | None = None, counts: bool = True
    ) -> None:
        server = self.ghost.servers[sid]
        self.judge.said[LeaderInfo](leader, sid, LeaderInfo(Epoch(epoch)))
        self.judge.role(sid, State.FOLLOWING, server.current, leader, False)
        self.judge.heard_leader_info(sid, Epoch(epoch))
        self.judge.durable_epochs(sid, Epoch(epoch), server.current)
        end = server.tip if last is None else last
        self.judge.said[AckEpoch](sid, leader, AckEpoch(max(server.current, epoch_of(server.tip)), end, 0, counts))

    def establishes(self, leader: ServerId, epoch: int) -> None:
        self.judge.role(leader, State.LEADING, Epoch(epoch), leader, False)

    def adopts(self, sid: ServerId, leader: ServerId, epoch: int) -> None:
        if sid != leader:
            self.judge.said[NewLeader](leader, sid, NewLeader(Epoch(epoch), ENSEMBLE))
        self.judge.durable_epochs(sid, Epoch(epoch), Epoch(epoch))
        if sid != leader:
            self.judge.said[AckNewLeader](sid, leader, AckNewLeader(Epoch(epoch)))

    def lets_serve(self, leader: ServerId, sid: ServerId, zxid: Zxid) -> None:
        self.judge.said[UpToDate](leader, sid, UpToDate(zxid))

    def acks(self, sid: ServerId, leader: ServerId, zxid: Zxid) -> None:
        self.judge.said[Ack](sid, leader, Ack(zxid))

    def establishes_epoch(self, leader: ServerId = THREE, epoch: int = 1, *followers: ServerId) -> None:
        """Run discovery and synchronization completely."""
        followers = followers or tuple(sid for sid in (ONE, TWO, THREE) if sid != leader)
        self.seeks(leader, epoch)
        for sid in followers:
            self.promises(sid, leader, epoch)
        self.establishes(leader, epoch)
        for sid in (leader, *followers):
            self.adopts(sid, leader, epoch)
        initial = self.ghost.servers[leader].tip
        if initial not in self.ghost.place:
            self.commits(leader, initial)
        for sid in followers:
            self.lets_serve(leader, sid, self.ghost.committed)


Build = Callable[[Scenario, bool], None]
"""A function that builds a scenario. The second argument is true for the run with the violation."""


@frozen
class Example:
    name: str
    checker: type[Checker]
    build: Build
    step: Action | None = None
    """The forbidden step, if the example violates the specification."""


EXAMPLES: Final[dict[str, Example]] = {}


def breaks(checker: type[Checker]) -> Callable[[Build], Build]:
    return lambda build: _add(Example(build.__name__, checker, build))


def refused(step: Action) -> Callable[[Build], Build]:
    return lambda build: _add(Example(build.__name__, Refinement, build, step))


def _add(case: Example) -> Build:
    assert case.name not in EXAMPLES
    EXAMPLES[case.name] = case
    return case.build


# -- verdicts of all checkers --------------------------------------------------------------------------

Violations: TypeAlias = dict[str, tuple[int, str]]
"""The first violation of each invariant, as (number of the check, message)."""


class EveryChecker(Judge):
    """A judge that runs each checker by itself, until it reports a violation."""

    def __init__(
        self,
        ghost: OracleState,
        checkers: Sequence[Callable[[OracleState], Checker]],
        serving_checked: Callable[[], None],
    ) -> None:
        self.questions = 0
        self.violations: Violations = {}
        super().__init__(ghost, checkers, serving_checked)

    def _asking(self, fact: str, again: bool) -> list[Callable[..., None]]:
        return [self._alone(checker, getattr(checker, fact)) for checker in self.concerned(fact, again)]

    def _alone(self, checker: Checker, check: Callable[..., None]) -> Callable[..., None]:
        def ask(*arguments: object) -> None:
            self.questions += 1
            if checker.invariant in self.violations:
                return
            try:
                check(*arguments)
            except Violation as violation:
                self.violations[violation.invariant] = self.questions, violation.what
            except LookupError as error:  # the events make no sense to this checker
                self.violations[checker.invariant] = self.questions, repr(error)

        return ask


def violation_of(case: Example, bad: bool) -> str:
    """Return the violation that the example's checker reports, or ""."""
    try:
        case.build(Scenario(case.checker), bad)
    except Violation as violation:
        return str(violation)
    return ""


def result_of(case: Example, bad: bool) -> object:
    """Return all violations, the allowed steps, and the final state of the oracle."""
    s = Scenario(*ALL, judged_by=EveryChecker)
    error_text = ""
    try:
        case.build(s, bad)
    except LookupError as error:  # the scenario continues after a violation
        error_text = repr(error)
    judge = s.judge
    assert isinstance(judge, EveryChecker)
    steps = [
        (each.steps, frozenset(each.pairs), each.actions()) for each in judge.checkers if isinstance(each, Refinement)
    ]
    return judge.violations, error_text, steps, s.checks_of_serving, _oracle_state(s.ghost)


def _oracle_state(ghost: OracleState) -> object:
    """Return the tables of the oracle, and the result of every query about a history."""
    zxids = [*ghost.depth, z(9, 9)]
    questions = [
        [ghost.view(one), one in ghost.depth and (ghost.shared(one), ghost.extension(one)), ghost.had(one)]
        + [ghost.holds(one, other) for other in zxids]
        for one in zxids
    ]
    tables = [tuple(each.items()) for each in (ghost.parent, ghost.depth, ghost.place, ghost.initial, ghost.ruler)]
    counts = ghost.newest, ghost.acknowledged, tuple(ghost.batches), tuple(ghost.canon)
    return tables, counts, repr(ghost.servers), repr(ghost.governing), questions
