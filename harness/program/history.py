"""The history of a failing run, in words: the faults, the leaders of the store, and what each node did."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from attrs import frozen

from harness.history import Info, Invoke, Reply, Request, Response, SessionEvent, WatchFired
from harness.outcome import Outcome
from harness.script.writing import describe_item
from harness.trace import Trace
from zab.core.plurals import counted
from zab.core.ready import Note

LINES_MAX: Final = 60
REPEATED: Final = 12
"""A line is left out if it is among so many last lines of the same process."""
LAST: Final = 8
"""So many lines at the end are never left out."""
DATA_MAX: Final = 24


@frozen
class HistoryLine:
    at: int
    process: str
    words: str


def explain(trace: Trace, outcome: Outcome) -> str:
    """Return the history without repetitions, and the verdict."""
    lines = list(history_lines(trace))
    text = list(_without_repetitions(lines))
    if len(text) > LINES_MAX:
        text = [f"    ... {counted(len(text) - LINES_MAX, 'earlier line')} left out", *text[-LINES_MAX:]]
    end = f"  x {outcome.at_ms:>9.1f}  {outcome.invariant}: {outcome.what}"
    return "\n".join(["History: virtual time in ms, process, event.", *text, end])


def _without_repetitions(lines: list[HistoryLine]) -> Iterator[str]:
    before: dict[str, deque[str]] = {}
    hidden = 0
    for number, each in enumerate(lines):
        known = before.setdefault(each.process, deque(maxlen=REPEATED))
        if each.words in known and each.process.startswith("node") and number < len(lines) - LAST:
            hidden += 1
            continue
        known.append(each.words)
        if hidden:
            yield f"    ... {counted(hidden, 'event')} as before"
            hidden = 0
        yield f"    {each.at / 1_000:>9.1f}  {each.process:<8}  {each.words}"


def history_lines(trace: Trace) -> Iterator[HistoryLine]:
    requests: dict[int, str] = {}
    for at, server, verb, other, what in trace.acts:
        if verb == "fault":
            yield HistoryLine(at, "nemesis", describe_item(what))  # type: ignore[arg-type]  # the verb says what it is
        elif verb == "heals":
            yield HistoryLine(at, "nemesis", "all faults end")
        elif verb == "node":
            words = _node_words(what, requests)
            if words:
                yield HistoryLine(at, f"node {other}", words)
        elif isinstance(what, Note) and what.event == "established":
            yield HistoryLine(at, f"server {server}", f"leads epoch {dict(what.fields)['epoch']}")
        elif verb in ("crashes", "pauses", "resumes"):
            yield HistoryLine(at, f"server {server}", verb)


def _node_words(what: object, requests: dict[int, str]) -> str:
    match what:
        case Invoke(call=call, server=server, request=request):
            requests[call] = request_words(request)
            return f"{requests[call]}  -> server {server}"
        case Response(call=call, reply=reply):
            return f"{requests.get(call, '')}: {reply_words(reply)}"
        case Info(call=call):
            return f"{requests.get(call, '')}: no reply"
        case WatchFired(event=event, path=path):
            return f"watch event: {event} {path}"
        case SessionEvent(state=state, server=server, session=session):
            return f"session {session:#x} is {state}" + (f" at server {server}" if state == "connected" else "")
        case _:
            return str(what)


def request_words(request: Request) -> str:
    if request.op == "multi":
        return f"multi({', '.join(map(request_words, request.parts))})"
    words = [request.op, request.path]
    if request.data:
        words.append(data_words(request.data))
    words += [each for each in (request.mode, request.watch and "with a watch") if each]
    if request.version != -1:
        words.append(f"if version {request.version}")
    return " ".join(word for word in words if word)


def reply_words(reply: Reply) -> str:
    if reply.error:
        return reply.error
    words = []
    if reply.data is not None:
        words.append(data_words(reply.data))
    if reply.children is not None:
        words.append(f"[{', '.join(reply.children)}]")
    if reply.stat is not None:
        words.append(f"version {reply.stat.version}")
    return "ok" + (f", {', '.join(words)}" if words else "")


def data_words(data: bytes) -> str:
    return repr(data[:DATA_MAX])[1:] + ("..." if len(data) > DATA_MAX else "")
