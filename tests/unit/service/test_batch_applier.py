"""Batches on their way into the machine: results, memberships, pauses and reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from zab.core.batch import Batch, change_payload, pack
from zab.core.ensemble import Ensemble
from zab.core.errors import DamagedError
from zab.core.zxid import Zxid, make
from zab.service.batch_applier import APPLY_S, SLOW_APPLY_S, BatchApplier, Pause
from zab.service.forwarding.pending_submissions import PendingSubmissions
from zab.service.replicated_machine import Passive
from zab.wire.relay_messages import TAG

MINE, OTHERS = b"\0\0\0\1\0\0\0\1", b"\0\0\0\2\0\0\0\1"
MEMBERS = Ensemble.parse("server.1=a:1:2\nserver.2=b:1:2\nversion=0")


class Surroundings(Passive):
    """The machine, the log and the watchdog of an applier. Each transaction takes `seconds`."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.now = 0.0
        self.seconds = seconds
        self.txns: list[tuple[Zxid, bytes]] = []
        self.known = Zxid(0)
        self.memberships: list[tuple[Ensemble, Zxid | None]] = []
        self.counted: list[tuple[int, int]] = []
        self.reports: list[str] = []
        self.results: list[object] = []
        self.untagged: list[tuple[Zxid, bytes, object]] = []
        self.pending = PendingSubmissions(MINE, 10, 1_000)
        self.it = BatchApplier(
            self,
            self,
            self.pending,
            lambda count, size: self.counted.append((count, size)),
            lambda ensemble, zxid: self.memberships.append((ensemble, zxid)),
            self,
            lambda zxid, payload, result: self.untagged.append((zxid, payload, result)),
        )

    def apply(self, zxid: Zxid, txn: bytes) -> object:
        if txn == b"bad":
            raise DamagedError("no transaction")
        self.now += self.seconds
        self.txns.append((zxid, txn))
        return txn.upper()

    def snapshot(self) -> Iterable[bytes]:
        return ()

    def restore(self, chunks: Iterable[bytes]) -> None: ...

    def know_committed(self, zxid: Zxid) -> None:
        self.known = zxid

    def log_file_of(self, zxid: Zxid) -> str:
        return "log.1"

    def clock(self) -> float:
        return self.now

    def took(self, seconds: float, cause: str | Callable[[], str]) -> None:
        self.reports.append(cause if isinstance(cause, str) else cause())


def batch_of(*txns: bytes, origin: bytes = MINE) -> Batch:
    return pack(make(1, 1), [TAG.pack(origin, number) + txn for number, txn in enumerate(txns, 1)])


def test_results_go_to_the_submitters_of_this_member_only() -> None:
    it = Surroundings()
    it.pending.submit(b"a", lambda result, error: it.results.append(result))
    assert list(it.it.apply_batch(batch_of(b"x", origin=OTHERS))) == []
    assert it.results == []
    assert list(it.it.apply_batch(batch_of(b"a"))) == []
    assert it.results == [b"A"]
    assert (it.txns, it.known) == ([(make(1, 1), b"x"), (make(1, 1), b"a")], make(1, 1))
    assert (it.it.applied, it.it.applied_bytes) == (2, sum(size for _, size in it.counted))


def test_membership_is_reported_with_its_zxid_and_not_given_to_the_machine() -> None:
    it = Surroundings()
    text = MEMBERS.text().encode()
    assert list(it.it.apply_batch(pack(make(1, 3), (text,), config=True))) == []
    it.it.activate(MEMBERS)
    assert it.memberships == [(MEMBERS, make(1, 3)), (MEMBERS, None)]
    assert (it.txns, it.known, it.it.applied) == ([], make(1, 3), 1)


def test_transaction_attached_to_a_membership_is_applied_before_it_is_reported() -> None:
    it = Surroundings()
    payload = change_payload(MEMBERS.text(), TAG.pack(OTHERS, 1) + b"config\0")
    assert list(it.it.apply_batch(pack(make(1, 3), (payload,), config=True))) == []
    assert it.txns == [(make(1, 3), b"config\0")]
    assert it.memberships == [(MEMBERS, make(1, 3))]
    assert it.untagged == [(make(1, 3), payload.partition(b"\0")[2], b"CONFIG\0")]


def test_long_batch_pauses_for_other_tasks() -> None:
    it = Surroundings(APPLY_S * 0.6)
    steps = it.it.apply_batch(batch_of(*[b"a"] * 5))
    assert next(steps) is Pause.LET_OTHERS
    assert len(it.txns) == 2
    assert [*steps] == [Pause.LET_OTHERS]
    assert (len(it.txns), it.reports) == (5, [])


def test_slow_transaction_is_reported() -> None:
    it = Surroundings(SLOW_APPLY_S * 2)
    list(it.it.apply_batch(batch_of(b"abc")))
    assert it.reports == ["applying a transaction of 3 bytes, zxid 1/1"]


def test_damaged_transaction_names_its_log_file() -> None:
    with pytest.raises(DamagedError, match=r"log\.1: no transaction"):
        list(Surroundings().it.apply_batch(batch_of(b"bad")))


def test_transactions_without_the_members_tag_are_reported_with_their_results() -> None:
    it = Surroundings()
    untagged: list[tuple[Zxid, bytes, object]] = []
    applier = BatchApplier(
        it,
        it,
        it.pending,
        lambda count, size: None,
        lambda ensemble, zxid: None,
        it,
        lambda zxid, payload, result: untagged.append((zxid, payload, result)),
    )
    theirs = batch_of(b"one", b"two", origin=OTHERS)
    assert list(applier.apply_batch(theirs)) == []
    assert list(applier.apply_batch(batch_of(b"three"))) == []
    assert untagged == [
        (zxid, payload, result)
        for zxid, payload, result in zip(theirs.zxids, theirs.payloads(), (b"ONE", b"TWO"), strict=True)
    ]
