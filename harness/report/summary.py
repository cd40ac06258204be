"""The summary of a run in a few sentences: leaders, faults, truncations, and durations."""

from __future__ import annotations

from typing import Any

from harness.faults import Fault, NodeFault
from harness.outcome import Outcome
from harness.report.diagram.picture import Picture, Shade
from harness.script.writing import describe_item
from zab.core.plurals import counted
from zab.core.ready import Append, Note, Truncate
from zab.core.zxid import show


def summary(outcome: Outcome, picture: Picture) -> tuple[str, ...]:
    """Return the sentences about a run. Its `picture` has the servers that each fault affected."""
    assert outcome.trace is not None
    writer = _Writer(picture.shades, outcome.valid)
    for at, server, verb, _, what in outcome.trace.acts:
        writer.add(at, server, verb, what)
    lines = writer.lines
    if outcome.valid and outcome.script.nodes:
        lines.append(f"{outcome.at_ms:>6} ms  all invariants hold: {counted(outcome.acknowledged, 'act')} of the nodes")
    elif outcome.valid:
        lines.append(
            f"{outcome.at_ms:>6} ms  all servers are equal: {counted(outcome.committed, 'transaction')}, with all"
            f" {outcome.acknowledged} acknowledged writes"
        )
    else:
        which = "unknown" if outcome.unknown else f"violated: {outcome.invariant}"
        lines.append(f"{outcome.at_ms:>6} ms  {which}: {outcome.what}")
    return tuple(lines)


class _Writer:
    def __init__(self, shades: tuple[Shade, ...], valid: bool) -> None:
        self._valid = valid
        self._shades = list(shades)
        self._ends: list[int] = []
        self._struck = 0
        """The time of the last fault, if no leader was established since; else 0."""
        self._leads: dict[int, str] = {}
        self._appended: dict[int, list[Append]] = {}
        self.lines: list[str] = []

    def add(self, at: int, server: int, verb: str, what: Any) -> None:
        while self._ends and self._ends[0] <= at:
            self._say(self._ends.pop(0), "the fault is over")
        if verb == "fault":
            self._fault(at, what)
        elif isinstance(what, Note):
            self._noted(at, server, what.event, dict(what.fields))
        elif isinstance(what, Append) and not what.batch.config:
            self._appended.setdefault(server, []).append(what)
        elif isinstance(what, Truncate):
            self._truncated(at, server, what)

    def _say(self, at: int, words: str) -> None:
        self.lines.append(f"{at // 1000:>6} ms  {words}")

    def _fault(self, at: int, fault: Fault) -> None:
        self._struck = at
        shade = next((each for each in self._shades if each.begin == at), None)
        lanes = () if shade is None or isinstance(fault, NodeFault) else shade.lanes
        servers = [str(lane + 1) for lane in lanes]
        target = f" (server {' and '.join(servers)})" if servers else ""
        self._say(at, f"a fault: {describe_item(fault)}{target}")
        if shade is not None:
            self._shades.remove(shade)
            self._ends = sorted([*self._ends, shade.end])

    def _noted(self, at: int, server: int, event: str, fields: dict[str, object]) -> None:
        if event == "established":
            after = f", {(at - self._struck) // 1000} ms after the fault" if self._struck else ""
            self._say(at, f"server {server} leads epoch {fields['epoch']}{after}")
            self._struck = 0
            self._leads[server] = str(fields["epoch"])
        elif event == "role_over" and server in self._leads:
            self._say(at, f"server {server} stops leading epoch {self._leads.pop(server)}: {fields['why']}")
        elif event == "up_to_date" and len(self.lines) > 1:
            self._say(at, f"server {server} follows server {fields['leader']} in epoch {fields['epoch']}")

    def _truncated(self, at: int, server: int, cut: Truncate) -> None:
        appended = self._appended.get(server, [])
        gone = [each for each in appended if each.batch.first > cut.zxid]
        self._appended[server] = [each for each in appended if each.batch.first <= cut.zxid]
        if gone:
            count = sum(each.batch.count for each in gone)
            fate = ", and that were never acknowledged" if self._valid else ""
            self._say(
                at,
                f"server {server} truncates {count} writes that the new leader does not have{fate}:"
                f" its log ends at {show(cut.zxid)} again",
            )
