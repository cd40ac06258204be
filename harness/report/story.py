"""The story of a run in a few sentences: leaders, faults, truncations, and durations."""

from __future__ import annotations

from typing import Any

from harness.faults import Fault
from harness.outcome import Outcome
from harness.report.diagram.picture import Picture, Shade
from harness.script.writing import describe_item
from zab.core.plurals import counted
from zab.core.ready import Append, Note, Truncate
from zab.core.zxid import show


def story(outcome: Outcome, picture: Picture) -> tuple[str, ...]:
    """`picture` is what is drawn of the same run: it knows whom a fault has met."""
    assert outcome.trace is not None
    teller = _Teller(picture.shades)
    for at, server, verb, _, what in outcome.trace.acts:
        teller.saw(at, server, verb, what)
    lines = teller.lines
    if outcome.valid:
        lines.append(
            f"{outcome.at_ms:>6} ms  all servers are equal: {counted(outcome.committed, 'transaction')}, and each of"
            f" the {outcome.acknowledged} writes that were acknowledged is among them"
        )
    else:
        which = "unknown" if outcome.unknown else f"violated: {outcome.invariant}"
        lines.append(f"{outcome.at_ms:>6} ms  {which}: {outcome.what}")
    return tuple(lines)


class _Teller:
    def __init__(self, shades: tuple[Shade, ...]) -> None:
        self._shades = list(shades)
        self._ends: list[int] = []
        self._struck = 0
        """When the last fault struck that nobody has led since; 0: there was none."""
        self._leads: dict[int, str] = {}
        self._appended: dict[int, list[Append]] = {}
        self.lines: list[str] = []

    def saw(self, at: int, server: int, verb: str, what: Any) -> None:
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
        met = [] if shade is None else [str(lane + 1) for lane in shade.lanes]
        whom = f" (server {' and '.join(met)})" if met else ""
        self._say(at, f"a fault: {describe_item(fault)}{whom}")
        if shade is not None:
            self._shades.remove(shade)
            self._ends = sorted([*self._ends, shade.end])

    def _noted(self, at: int, server: int, event: str, said: dict[str, object]) -> None:
        if event == "established":
            after = f", {(at - self._struck) // 1000} ms after the fault" if self._struck else ""
            self._say(at, f"server {server} leads epoch {said['epoch']}{after}")
            self._struck = 0
            self._leads[server] = str(said["epoch"])
        elif event == "role_over" and server in self._leads:
            self._say(at, f"server {server} gives up epoch {self._leads.pop(server)}: {said['why']}")
        elif event == "up_to_date" and len(self.lines) > 1:
            self._say(at, f"server {server} follows server {said['leader']} in epoch {said['epoch']}")

    def _truncated(self, at: int, server: int, cut: Truncate) -> None:
        appended = self._appended.get(server, [])
        gone = [each for each in appended if each.batch.first > cut.zxid]
        self._appended[server] = [each for each in appended if each.batch.first <= cut.zxid]
        if gone:
            count = sum(each.batch.count for each in gone)
            self._say(
                at,
                f"server {server} truncates {count} writes that only it had: its log ends at {show(cut.zxid)} again,"
                " and they were never acknowledged",
            )
