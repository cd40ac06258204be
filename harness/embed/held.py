"""What was answered, held against the model: in the order of zxids, and in the order of real time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define

from harness.checkers import Violation
from harness.embed.model import Model
from zab.core.errors import Refused
from zab.core.zxid import Zxid, show

SAME = "the same everywhere"
MODEL = "what the model says"
ORDER = "in the order of real time"
ONCE = "what was reported as not carried out, was not"


@define
class Call:
    """One request, from where it was asked."""

    number: int
    request: bytes
    server: int
    called: int
    returned: int | None = None
    result: object = None
    refused: str | None = None
    zxid: Zxid | None = None
    """Where it stands in the history; None for as long as it is nowhere."""
    first: object = None
    """What the first server that applied it made of it."""
    first_at: int = 0
    given_up: bool = False
    """The library says that it was not carried out, because leader after leader was lost with it."""

    def __str__(self) -> str:
        where = "" if self.zxid is None else f" (zxid {show(self.zxid)})"
        return f"request {self.number}, {self.request!r}, asked of server {self.server}{where}"


def agree(call: Call, server: int, result: object) -> None:
    """Another server has applied it, too."""
    if not same(result, call.first):
        raise Violation(SAME, f"{call}: server {call.first_at} made {call.first!r} of it, server {server} {result!r}")


def same(one: object, other: object) -> bool:
    return one is other or bool(one == other) or (one != one and other != other)


def judge(committed: Sequence[Call], calls: Sequence[Call], model: Model) -> None:
    """All calls that are in the history, in its order, and all that were ever made."""
    _in_real_time(committed)
    states: list[Any] = [model.initial()]
    for call in committed:
        if call.given_up:
            raise Violation(ONCE, f"{call} was reported as not carried out, and it was")
        try:
            state, expected = model.step(states[-1], call.request)
        except Refused as refused:
            raise Violation(MODEL, f"{call}: it was done, and the model refuses it: {refused}") from refused
        if not same(call.first, expected):
            raise Violation(MODEL, f"{call}: the machine answers {call.first!r}, the model {expected!r}")
        if call.returned is not None and not same(call.result, call.first):
            raise Violation(MODEL, f"{call}: it was answered {call.result!r}, and the machine had said {call.first!r}")
        states.append(state)
    for call in calls:
        if call.refused is not None:
            _could_refuse(call, committed, states, model)


def _in_real_time(committed: Sequence[Call]) -> None:
    """Nothing that was over before something else was asked comes behind that."""
    latest = None
    for call in committed:
        if latest is not None and call.returned is not None and call.returned < latest.called:
            raise Violation(ORDER, f"{call} was answered before {latest} was asked, and stands behind it")
        if latest is None or call.called > latest.called:
            latest = call


def _could_refuse(call: Call, committed: Sequence[Call], states: Sequence[Any], model: Model) -> None:
    """At one moment between its call and its answer, at least."""
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
    raise Violation(MODEL, f"{call} was refused ({call.refused}), and the model would not have refused it")
