"""The history of a failing run as text: the events of clients and of the nemesis in the order of time, then the calls
in the order of commits, each with the result of the model.

An event of a client is `invoke` (it sends a request), `ok` (it has a result), `fail` (the request was not carried out)
or `info` (the outcome is unknown).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from attrs import frozen

from harness.checkers import Violation
from harness.embed.calls import Call, Objection, Verdict
from harness.faults import Reconfigure, Script
from harness.script.writing import describe_item
from zab.core.plurals import counted
from zab.core.zxid import show

BEFORE: Final = 40
"""The most events that are shown before the last one of the violation."""
AFTER: Final = 6
WORDS_MAX: Final = 120


@frozen
class Invoked:
    """A client sends a request. The object is an act of a trace."""

    call: int
    server: int
    words: str


@frozen
class Returned:
    """A call ends as ok, fail or info. The object is an act of a trace."""

    call: int
    type: str
    words: str


@frozen
class HistoryLine:
    """A line of the history. `process` is a client, the nemesis, an operator or a leader."""

    at: int
    process: str
    type: str
    words: str
    marked: bool = False


def short(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= WORDS_MAX else f"{text[:WORDS_MAX]}... ({len(text)} characters)"


def reply_of(call: Call) -> Returned:
    """Return the end of the call as the client sees it."""
    if call.refused is not None:
        return Returned(call.number, "fail", f"refused: {short(call.refused)}")
    if call.given_up:
        return Returned(call.number, "fail", "not carried out: several leaders in turn were lost with it")
    if call.returned is None:
        return Returned(call.number, "info", short(call.why or "no answer"))
    return Returned(call.number, "ok", short(call.result))


def history_lines(
    script: Script, calls: Sequence[Call], led: Sequence[tuple[int, int, int]], healed: int, end: int, marked: set[int]
) -> list[HistoryLine]:
    """Return the lines in the order of time.

    `led` has the time, the server and the epoch of each leader; `healed` is 0 if the faults have not ended yet.
    """
    found = [
        HistoryLine(fault.at * 1_000, "nemesis", "start", describe_item(fault))
        for fault in script.faults
        if fault.at * 1_000 <= (healed or end)
    ]
    found += [
        HistoryLine(op.at * 1_000, "operator", "invoke", describe_item(op))
        for op in script.ops
        if isinstance(op, Reconfigure) and op.at * 1_000 <= (healed or end)
    ]
    found += [HistoryLine(at, "leader", "", f"server {server} leads epoch {epoch}") for at, server, epoch in led]
    if healed:
        found.append(
            HistoryLine(
                healed, "nemesis", "stop", "all faults end, all servers start, and the liveness check invokes requests"
            )
        )
    for call in calls:
        is_marked, client = call.number in marked, f"client {call.server}"
        found.append(HistoryLine(call.called, client, "invoke", f"#{call.number} {short(call.request)}", is_marked))
        reply = reply_of(call)
        at = call.returned if call.returned is not None else call.lost
        where = "" if call.zxid is None else f"  (zxid {show(call.zxid)})"
        words = f"#{call.number} {short(call.request)} -> {reply.words}{where}"
        found.append(HistoryLine(end if at is None else at, client, reply.type, words, is_marked))
    return sorted(found, key=lambda each: each.at)


def explain(found: Sequence[HistoryLine], violation: Violation, committed: Sequence[Verdict], end: int) -> str:
    return "\n".join(_lines(found, violation, committed, end))


def _lines(found: Sequence[HistoryLine], violation: Violation, committed: Sequence[Verdict], end: int) -> Iterator[str]:
    yield "History: time in ms, process, event. Client N is connected to server N; * marks the calls of the violation."
    last = max((place for place, each in enumerate(found) if each.marked), default=len(found) - 1)
    first = max(0, last - BEFORE)
    until = min(len(found), last + 1 + AFTER)
    marked = [place for place in range(first) if found[place].marked]
    shown = [*marked, *range(first, until)]
    before, after = first - len(marked), len(found) - until
    if before:
        yield f"    ... {counted(before, 'earlier event')} left out"
    for place in shown:
        each = found[place]
        mark = "*" if each.marked else " "
        yield f"  {mark} {each.at / 1_000:>8.1f}  {each.process:<9} {each.type:<6} {each.words}".rstrip()
    if after:
        yield f"    ... {counted(after, 'later event')} left out"
    yield ""
    yield f"Checker: {violation.invariant}"
    objected = {call.number for call in violation.calls} if isinstance(violation, Objection) else set()
    yield from _order(committed, objected)
    yield f"  after {end / 1_000:.1f} ms: {violation.what}"


def _order(committed: Sequence[Verdict], objected: set[int]) -> Iterator[str]:
    """Yield the calls in the order of commits, up to the last one of the violation."""
    places = [place for place, each in enumerate(committed) if each.call.number in objected]
    until = places[-1] + 1 if places else len(committed)
    since = max(0, until - BEFORE // 2)
    rows = [
        (
            "*" if each.call.number in objected else " ",
            "" if each.call.zxid is None else show(each.call.zxid),
            f"#{each.call.number} {short(each.call.request)}",
            short(each.call.first),
            short(each.expected),
        )
        for each in committed[since:until]
    ]
    if not rows:
        return
    table = [(" ", "zxid", "request", "machine", "model"), *rows]
    widths = [max(len(row[column]) for row in table) for column in range(5)]
    yield "  The calls in the order of commits:"
    if since:
        yield f"    ... {counted(since, 'earlier call')} left out"
    for row in table:
        yield "  " + "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip()
