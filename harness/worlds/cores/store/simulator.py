"""The simulator of the store: it records the history of the clients, and judges it at the end of the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from attrs import evolve

from harness.changes import changes_of_batch
from harness.checkers import ALL, Checker
from harness.checkers.recovery import MachineIsHistory
from harness.checkers.store import ended_early, quotas, refusals
from harness.checkers.store.case import Case
from harness.checkers.store.judge import InvariantVerdict, check_invariants
from harness.faults import ClockDrift, ClockFreeze, Script
from harness.history import Event, History, Jump
from harness.outcome import Outcome
from harness.worlds.common import Common
from harness.worlds.cores.liveness import INVARIANT
from harness.worlds.cores.simulator import Simulator
from harness.worlds.cores.store.checks import StoreIsHistory, committed
from zab.core.zxid import ServerId, Zxid

INSTEAD: Final[dict[type[Checker], type[Checker]]] = {MachineIsHistory: StoreIsHistory}
"""The replacement for the store of each checker that depends on the machine."""


class StoreHistory(Common):
    """The history of the store's clients, in either world."""

    workload: Any
    client_events: list[Event]

    def __init__(self, script: Script, *, trace: bool = False, checkers: Sequence[type[Checker]] = ALL) -> None:
        self._jumps: list[Jump] = []
        self.prepared: dict[int, int] = {}
        """The last zxid that the leader had applied when it prepared a transaction, by the zxid of the transaction."""
        super().__init__(script, trace=trace, checkers=[INSTEAD.get(checker, checker) for checker in checkers])

    def jumped(self, server: ServerId, zxid: Zxid) -> None:
        self._jumps.append(Jump(server, zxid))

    def history(self) -> History:
        changes = [change for batch in committed(self.ghost) for change in changes_of_batch(batch)]
        return History(tuple(self.client_events), tuple(changes), tuple(self._jumps))


class StoreSimulator(StoreHistory, Simulator):
    def __init__(self, script: Script, *, trace: bool = False, checkers: Sequence[type[Checker]] = ALL) -> None:
        self.client_events = []
        self._calls = 0
        self.moved_replies: list[tuple[int, int, int]] = []
        """The session, server and zxid of each SESSION_MOVED that a server has returned."""
        super().__init__(script, trace=trace, checkers=checkers)

    @property
    def _clocks_agree(self) -> bool:
        """True if all clocks run at the same rate, so that the clocks of clients measure the time of a leader."""
        return not any(isinstance(fault, ClockDrift | ClockFreeze) for fault in self.script.faults)

    def next_call(self) -> int:
        self._calls += 1
        return self._calls

    def saw(self, event: Event) -> None:
        self.client_events.append(event)
        if self.trace is not None:
            self.record(0, "client", event.client, event)

    def outcome(self) -> Outcome:
        wait_ms = self.script.knobs.wait_ms if self._clocks_agree else None
        return with_clients_judged(super().outcome(), self.prepared, early=self._clocks_agree, wait_ms=wait_ms)


def with_clients_judged(outcome: Outcome, prepared: dict[int, int], *, early: bool, wait_ms: int | None) -> Outcome:
    """Judge the history of the clients, unless the run has ended with a violation other than of liveness.

    A client without progress may be a symptom only, so a violation in the history is reported before it. `early`: also
    judge the ends of sessions by the clocks of clients; `wait_ms`: also judge refusals of requests that have waited.
    """
    if outcome.invariant not in (None, INVARIANT):
        return outcome
    assert outcome.history is not None, "a run of the store has a history"
    case = Case.of(outcome.history)
    verdict = check_invariants(case)
    if verdict.valid:
        late = () if wait_ms is None else refusals.throttled(case, wait_ms)
        ends = ended_early(case.history) if early else ()
        verdict = evolve(verdict, broken=(*quotas.check(case, prepared), *late, *ends))
    return with_cause(outcome, verdict)


def with_cause(outcome: Outcome, kept: InvariantVerdict) -> Outcome:
    if kept.invariant is None:
        return outcome
    symptom = "" if outcome.invariant is None else f"; and then {outcome.invariant}: {outcome.what}"
    return evolve(outcome, invariant=kept.invariant, what=f"{kept.what}{symptom}", unknown=False)
