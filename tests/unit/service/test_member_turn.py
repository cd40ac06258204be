"""The order of a turn: requests, then each Ready of a node that only replays, with effects that are only recorded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from zab.core.batch import Batch, pack
from zab.core.ensemble import Ensemble, Server
from zab.core.node import Node
from zab.core.outbox import EMPTY_READY
from zab.core.ready import (
    Activate,
    Append,
    Apply,
    BarrierDone,
    Dial,
    Envelope,
    Note,
    Ready,
    Restore,
    SendSnapshot,
    Write,
)
from zab.core.zxid import Millis, ServerId, Zxid, make
from zab.service.forwarding.request_path import RequestPath
from zab.service.member_turn import MemberTurn

PEER = ServerId(2)
BATCH = pack(make(1, 1), (b"payload",))
ENSEMBLE = Ensemble((Server(ServerId(1), "localhost", 2001, 3001),), make(1, 0))
SNAPSHOT = Envelope(PEER, SendSnapshot(make(1, 1), 0))


class Recorder:
    """The node, the request path and the owner of a turn in one: a list of what was called, in order."""

    def __init__(self, readies: Sequence[Ready], *, waits: bool = False) -> None:
        self.said: list[str] = []
        self.waiting: list[object] = []
        self.barriers = self.changes = self
        self._readies = list(readies)
        self._waits = waits

    # the node

    @property
    def has_ready(self) -> bool:
        return bool(self._readies)

    def ready(self) -> Ready:
        return self._readies.pop(0)

    # the request path

    def turn(self, now: Millis) -> None:
        self.said.append("requests")

    def ask_barrier(self, now: Millis) -> None:
        self.said.append("barrier asked")

    def on_barrier(self, number: int, zxid: Zxid | None) -> None:
        self.said.append(f"barrier {number}")

    def activated(self, version: Zxid) -> None:
        self.said.append("change activated")

    def restored(self, zxid: Zxid) -> None:
        self.said.append("restored")

    def reached(self, zxid: Zxid) -> None:
        self.said.append(f"reached {zxid & 0xFF}")

    # the effects

    def begin(self, ready: Ready) -> None:
        self.said.append("begin")

    def send_and_save(self, ready: Ready) -> None:
        self.said.append("send and save")

    def find_snapshots(self, ready: Ready) -> None:
        self.said.append("find")

    def apply_batch(self, batch: Batch) -> Iterable[str]:
        self.said.append("apply")
        return ["a pause"] if self._waits else []

    def restore(self, restore: Restore) -> Iterable[str]:
        self.said.append("restore")
        return ["a restore"]

    def activate(self, ensemble: Ensemble) -> None:
        self.said.append("activate")

    def carried_out(self, ready: Ready, now: Millis) -> None:
        self.said.append("done")


def took(recorder: Recorder, *, steady: bool = True) -> tuple[list[str], list[str], bool]:
    """Run a turn. Return what was done, the reasons for which it waited, and whether all was common."""
    turn = MemberTurn[str](cast(Node, recorder), cast(RequestPath, recorder), recorder)
    steps, waits = turn.steps(0, steady=steady), list[str]()
    while True:
        try:
            waits.append(next(steps))
        except StopIteration as end:
            return recorder.said, waits, end.value


def write(ticket: int) -> tuple[Write, ...]:
    return (Append(ticket, BATCH),)


def test_turn_without_a_ready_only_looks_at_the_requests() -> None:
    assert took(Recorder([])) == (["requests"], [], True)
    assert took(Recorder([EMPTY_READY])) == (["requests"], [], True)


def test_common_ready_sends_and_saves_before_it_applies() -> None:
    said, waits, steady = took(Recorder([Ready(save=write(1), apply=(Apply(BATCH),))], waits=True))
    assert said == ["requests", "send and save", "apply", "reached 1", "done", "requests"]
    assert waits == ["a pause"]
    assert steady


def test_requests_get_no_second_chance_where_nothing_was_applied() -> None:
    said, _, steady = took(Recorder([Ready(save=write(1))]))
    assert said == ["requests", "send and save", "done"]
    assert steady


def test_any_ready_of_a_role_that_does_not_serve_is_carried_out_in_full() -> None:
    said, _, steady = took(Recorder([Ready(save=write(1))]), steady=False)
    assert said == ["requests", "begin", "send and save", "find", "done", "requests"]
    assert not steady


def test_a_note_a_link_or_a_barrier_ends_the_fast_path() -> None:
    for ready in (
        Ready(notes=(Note("elected"),)),
        Ready(links=(Dial(PEER),)),
        Ready(barriers=(BarrierDone(7, None),)),
    ):
        said, _, steady = took(Recorder([ready, Ready(save=write(1))]))
        assert said.count("begin") == 2, "and the fast path is over for the rest of the turn"
        assert not steady


def test_barriers_are_answered_after_the_apply() -> None:
    ready = Ready(apply=(Apply(BATCH),), barriers=(BarrierDone(7, BATCH.last),))
    said, _, _ = took(Recorder([ready]))
    assert said == ["requests", "begin", "send and save", "find", "apply", "reached 1", "barrier 7", "done", "requests"]


def test_state_leaves_after_the_apply_that_makes_it() -> None:
    said, _, _ = took(Recorder([Ready(send=(SNAPSHOT,), apply=(Apply(BATCH),), notes=(Note("synchronize"),))]))
    assert said == ["requests", "begin", "apply", "reached 1", "send and save", "find", "done", "requests"]


def test_learner_acknowledges_a_snapshot_when_its_machine_holds_it() -> None:
    recorder = Recorder([Ready(apply=(Restore(make(1, 9)), Activate(ENSEMBLE)))])
    said, waits, _ = took(recorder)
    assert said[:6] == ["requests", "begin", "restore", "restored", "change activated", "activate"]
    assert said[6:9] == ["reached 9", "send and save", "find"]
    assert waits == ["a restore"]


def test_one_barrier_a_turn_is_asked_for_all_who_wait() -> None:
    recorder = Recorder([Ready(apply=(Apply(BATCH),))])
    recorder.waiting.append(object())
    said: list[Any] = took(recorder)[0]
    assert said.count("barrier asked") == 1
    assert said[:2] == ["requests", "barrier asked"]
