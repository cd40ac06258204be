"""Check the calls of a run against the model, in the order of zxids and in the order of real time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define, frozen

from harness.checkers import Violation
from harness.embed.model import Model
from harness.embed.state import same
from zab.core.errors import Refused
from zab.core.zxid import ServerId, Zxid, show

SAME = "all servers return the same results"
MODEL = "results match the model"
ORDER = "commits follow the order of real time"
ONCE = "a request that was reported as failed is not applied"


@define
class Call:
    """One request of a client. The clients of a run are named by the server to which they are connected."""

    number: int
    request: bytes
    server: int
    called: int
    returned: int | None = None
    """The time of the reply: ok or fail. None if the outcome is unknown (info)."""
    result: object = None
    refused: str | None = None
    zxid: Zxid | None = None
    """The zxid of its transaction; None until a server applies it."""
    first: object = None
    """The result at the first server that applied it."""
    first_at: int = 0
    given_up: bool = False
    """True if the library reported that it was not carried out, because several leaders in turn were lost with it."""
    lost: int | None = None
    """The time at which the client learned that the outcome is unknown."""
    why: str = ""
    """The error of a call with an unknown outcome."""

    def __str__(self) -> str:
        where = "" if self.zxid is None else f" (zxid {show(self.zxid)})"
        return f"request {self.number}, {self.request!r}, sent to server {self.server}{where}"


class Objection(Violation):
    """A violation that concerns certain calls."""

    def __init__(self, invariant: str, what: str, *calls: Call) -> None:
        super().__init__(invariant, what)
        self.calls = calls


@frozen
class Verdict:
    """One committed call, and the result of the model."""

    call: Call
    expected: str


def agree(call: Call, server: ServerId, result: object) -> None:
    """Raise an objection if this server's result differs from that of the first server that applied the call."""
    if not same(result, call.first):
        words = f"server {call.first_at} returned {call.first!r}, server {server} returned {result!r}"
        raise Objection(SAME, f"{call}: {words}", call)


def judge(committed: Sequence[Call], calls: Sequence[Call], model: Model) -> None:
    """Check the committed calls in their order, then the refused ones among all calls."""
    _in_real_time(committed)
    states: list[Any] = [model.initial()]
    for call in committed:
        if call.given_up:
            raise Objection(ONCE, f"{call} was reported as not carried out, but is committed", call)
        try:
            state, expected = model.step(states[-1], call.request)
        except Refused as refused:
            raise Objection(MODEL, f"{call}: it is committed, but the model refuses it: {refused}", call) from refused
        if not same(call.first, expected):
            raise Objection(MODEL, f"{call}: the machine returned {call.first!r}, the model returns {expected!r}", call)
        if call.returned is not None and not same(call.result, call.first):
            words = f"the client received {call.result!r}, but the machine returned {call.first!r}"
            raise Objection(MODEL, f"{call}: {words}", call)
        states.append(state)
    for call in calls:
        if call.refused is not None:
            _could_refuse(call, committed, states, model)


def verdicts(committed: Sequence[Call], model: Model) -> list[Verdict]:
    """Run the model over the committed calls, up to the first one with another result."""
    found: list[Verdict] = []
    state = model.initial()
    for call in committed:
        try:
            state, expected = model.step(state, call.request)
        except Refused as refused:
            return [*found, Verdict(call, f"refuses: {refused}")]
        found.append(Verdict(call, repr(expected)))
        if not same(call.first, expected):
            break
    return found


def _in_real_time(committed: Sequence[Call]) -> None:
    """Check that a call which returned before another one was invoked is committed before it."""
    latest = None
    for call in committed:
        if latest is not None and call.returned is not None and call.returned < latest.called:
            words = f"{call} returned before {latest} was invoked, but is committed after it"
            raise Objection(ORDER, words, call, latest)
        if latest is None or call.called > latest.called:
            latest = call


def _could_refuse(call: Call, committed: Sequence[Call], states: Sequence[Any], model: Model) -> None:
    """Check that the model refuses the call in a state between its invocation and its reply."""
    assert call.returned is not None
    least = 0
    most = len(committed)
    for place, other in enumerate(committed):
        if other.returned is not None and other.returned < call.called:
            least = place + 1
        if other.called > call.returned:
            most = min(most, place)
    for state in states[least : max(most, least) + 1]:
        try:
            model.step(state, call.request)
        except Refused:
            return
    words = (
        f"{call} was refused ({call.refused}), but the model accepts it in every state from its invocation to its reply"
    )
    raise Objection(MODEL, words, call)
