"""The leader's queue, with a node that only counts."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from zab.core.batch import pack
from zab.core.ensemble import Ensemble
from zab.core.errors import NotLeader, Overloaded, Refused
from zab.core.messages import Propose
from zab.core.zxid import Epoch, Millis, ServerId, Zxid, make
from zab.host.logs import Log
from zab.runtime.link import Link
from zab.service.forwarding.pending_submissions import tagged
from zab.service.forwarding.proposal_queue import ForwardedBatch, ProposalQueue, RefusedRequest, by_link
from zab.service.limits import Limits
from zab.service.replicated_machine import Passive, View
from zab.wire.frames import FrameReader
from zab.wire.peer import encode
from zab.wire.relay_messages import TAG_BYTES

A, B = b"origin A", b"origin B"
EPOCH = Epoch(3)
LOG = Log(ServerId(1), lambda: EPOCH)


class Node:
    """Gives zxids, as long as there is room."""

    def __init__(self, last: Zxid = make(2, 7)) -> None:
        self.last = last
        self.slow: Zxid | None = None
        """What is committed; None: everything, as soon as it is proposed."""
        self.room = 1_000_000
        self.error: Exception | None = None
        self.batches: list[list[bytes]] = []

    @property
    def committed(self) -> Zxid:
        return self.last if self.slow is None else self.slow

    def propose(self, payloads: Sequence[bytes], now: Millis) -> Zxid:
        if self.error is not None:
            raise self.error
        if len(payloads) > self.room:
            raise Overloaded("full")
        self.room -= len(payloads)
        first = Zxid(self.last + 1) if self.last >> 32 == EPOCH else make(EPOCH, 1)
        self.last = Zxid(first + len(payloads) - 1)
        self.batches.append(list(payloads))
        return first

    def reconfigure(self, ensemble: Ensemble, expect: Zxid | None, now: Millis, attached: bytes = b"") -> Zxid:
        if self.error is not None:
            raise self.error
        self.last = Zxid(self.last + 1) if self.last >> 32 == EPOCH else make(EPOCH, 1)
        self.batches.append([attached])
        return self.last


class Machine(Passive):
    def apply(self, zxid: Zxid, txn: bytes) -> object:
        raise AssertionError("nothing is applied at a queue")

    def snapshot(self) -> list[bytes]:
        return []

    def restore(self, chunks: object) -> None:
        pass


class Picky(Machine):
    """Refuses requests that begin with `no`, and records its arguments."""

    def __init__(self) -> None:
        self.seen: list[tuple[bytes, Zxid, list[bytes]]] = []

    def prepare(self, request: bytes, view: View) -> bytes:
        self.seen.append((request, view.zxid, [txn for _, txn in view.outstanding]))
        if request.startswith(b"no"):
            raise Refused(f"{request.decode()}!")
        return request.upper()


class Accountant(Machine):
    """Tracks its own outstanding transactions."""

    def __init__(self) -> None:
        self.asked: list[tuple[bytes, Zxid, Epoch, int]] = []

    def prepare(self, request: bytes, view: View) -> bytes:
        raise AssertionError("it needs no view")

    def prepare_at(self, request: bytes, zxid: Zxid, epoch: Epoch, now_ms: int) -> bytes:
        self.asked.append((request, zxid, epoch, now_ms))
        if request.startswith(b"no"):
            raise Refused(f"{request.decode()}!")
        return request.upper()


def link(peer: int = 2) -> Link:
    return Link(ServerId(peer), False, Limits())


def batch_of(source: Link | None, origin: bytes, first: int, *requests: bytes, epoch: Epoch = EPOCH) -> ForwardedBatch:
    return ForwardedBatch(epoch, source, origin, first, requests)


def opened(machine: Machine | None = None, **limits: int) -> ProposalQueue:
    queue = ProposalQueue(machine or Machine(), Limits(**limits), LOG)
    queue.open(EPOCH)
    return queue


def test_requests_of_several_servers_become_one_batch_in_order_of_arrival() -> None:
    queue, node = opened(), Node()
    queue.put(batch_of(link(), A, 5, b"a5", b"a6"))
    queue.put(batch_of(None, B, 1, b"b1"))
    queue.turn(node, 0, 0)
    assert node.batches == [[tagged(A, 5, b"a5"), tagged(A, 6, b"a6"), tagged(B, 1, b"b1")]]
    assert not queue.busy
    assert (queue.proposed, queue.batches) == (3, 1)


def test_store_prepares_without_a_view() -> None:
    machine, node = Accountant(), Node()
    queue = opened(machine)
    queue.put(batch_of(None, A, 5, b"a5", b"no a6", b"a7"))
    queue.turn(node, 0, 99)
    assert node.batches == [[tagged(A, 5, b"A5"), tagged(A, 7, b"A7")]]
    assert queue.refusals == [RefusedRequest(None, 6, "no a6!")]
    first, second = make(EPOCH, 1), make(EPOCH, 2)
    assert machine.asked == [(b"a5", first, EPOCH, 99), (b"no a6", second, EPOCH, 99), (b"a7", second, EPOCH, 99)]


def test_batches_are_bounded_by_count_and_by_bytes() -> None:
    queue, node = opened(batch_entries_max=2), Node()
    queue.put(batch_of(None, A, 1, b"1", b"2", b"3", b"4", b"5"))
    queue.turn(node, 0, 0)
    assert [len(batch) for batch in node.batches] == [2, 2, 1]
    assert [payload for batch in node.batches for payload in batch] == [
        tagged(A, number, b"%d" % number) for number in range(1, 6)
    ]
    queue, node = opened(batch_bytes_max=100), Node()
    queue.put(batch_of(None, A, 1, *(bytes(60) for _ in range(5))))
    queue.turn(node, 0, 0)
    assert [len(batch) for batch in node.batches] == [2, 2, 1]


def test_batch_waits_until_it_is_as_large_as_the_outstanding_ones() -> None:
    queue, node = opened(), Node(make(3, 10))
    node.slow = make(3, 10)

    def put(first: int, *requests: bytes) -> list[list[bytes]]:
        node.batches.clear()
        queue.put(batch_of(None, A, first, *requests))
        queue.turn(node, 0, 0)
        return [[payload[TAG_BYTES:] for payload in batch] for batch in node.batches]

    assert put(1, b"1") == [[b"1"]]
    assert put(2, b"2") == [[b"2"]], "one in flight, one to go"
    assert put(3, b"3") == []
    assert put(4, b"4", b"5") == [[b"3", b"4", b"5"]]
    assert put(6, b"6", b"7") == []
    node.slow = make(3, 13)  # two are left
    queue.turn(node, 0, 0)
    assert [len(batch) for batch in node.batches] == [2]


def test_prepare_receives_the_zxid_and_the_outstanding_transactions() -> None:
    machine = Picky()
    queue, node = opened(machine), Node()
    queue.put(batch_of(None, A, 1, b"x", b"no", b"y"))
    queue.turn(node, 0, 0)
    assert machine.seen == [
        (b"x", make(3, 1), []),
        (b"no", make(3, 2), [b"X"]),
        (b"y", make(3, 2), [b"X"]),
    ]
    assert node.batches == [[tagged(A, 1, b"X"), tagged(A, 3, b"Y")]]
    queue.applied(make(3, 1))
    queue.put(batch_of(None, A, 4, b"z"))
    queue.turn(node, 0, 0)
    assert machine.seen[-1] == (b"z", make(3, 3), [b"Y"])


def test_refusals_name_their_request_and_where_it_came_from() -> None:
    queue, node, source = opened(Picky()), Node(), link()
    queue.put(batch_of(source, A, 8, b"no1", b"yes", b"no2"))
    queue.put(batch_of(None, B, 1, b"no3"))
    queue.turn(node, 0, 0)
    assert queue.refusals == [
        RefusedRequest(source, 8, "no1!"),
        RefusedRequest(source, 10, "no2!"),
        RefusedRequest(None, 1, "no3!"),
    ]
    assert by_link(queue.refusals) == {source: ((8, "no1!"), (10, "no2!")), None: ((1, "no3!"),)}
    assert node.batches == [[tagged(A, 9, b"YES")]]


class Buggy(Machine):
    """Fails as the request demands."""

    def prepare(self, request: bytes, view: View) -> bytes:
        match request:
            case b"raise":
                raise ValueError("not this")
            case b"mute":
                raise Mute
            case b"none":
                return None  # type: ignore[return-value]
            case b"array":
                return bytearray(b"changes later")  # type: ignore[return-value]
            case b"refuse":
                raise Refused("half a \ud800 character")
            case _:
                return request * 40


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even that")


def test_a_bug_in_prepare_is_the_answer_to_that_request_alone(caplog: pytest.LogCaptureFixture) -> None:
    """Otherwise the request would end one leader after the other."""
    queue, node = opened(Buggy(), frame_bytes_max=64 + 16 + 5 + 400), Node()
    queue.put(
        batch_of(None, A, 1, b"raise", b"mute", b"none", b"array", b"refuse", b"10 letters", b"11 letters!", b"ok")
    )
    queue.turn(node, 0, 0)
    assert [(refusal.counter, refusal.reason) for refusal in queue.refusals] == [
        (1, "prepare raised ValueError: not this"),
        (2, "prepare raised Mute: (its text cannot be shown)"),
        (3, "prepare returned NoneType, not bytes"),
        (4, "prepare returned bytearray, not bytes"),
        (5, r"half a \ud800 character"),
        (7, "the transaction has 440 bytes; at most 400 fit into a frame (Limits.frame_bytes_max)"),
    ]
    assert node.batches == [[tagged(A, 6, b"10 letters" * 40)], [tagged(A, 8, b"ok" * 40)]]
    assert [record.levelname for record in caplog.records] == ["ERROR"] * 5
    assert [record.exc_info is not None for record in caplog.records] == [True, True, False, False, False]


def test_exceptions_that_end_a_process_are_no_refusal() -> None:
    class Interrupted(Machine):
        def prepare(self, request: bytes, view: View) -> bytes:
            raise KeyboardInterrupt

    queue = opened(Interrupted())
    queue.put(batch_of(None, A, 1, b"x"))
    with pytest.raises(KeyboardInterrupt):
        queue.turn(Node(), 0, 0)


@pytest.mark.parametrize("machine", [Machine, Picky])
@pytest.mark.parametrize("frame_bytes_max", [200, 1_000, 70_000])
def test_a_batch_fits_into_a_frame(machine: type[Machine], frame_bytes_max: int) -> None:
    random = Random(frame_bytes_max)
    queue, node = opened(machine(), frame_bytes_max=frame_bytes_max), Node()
    requests = [bytes(random.randrange(frame_bytes_max - 85 + 1)) for _ in range(60)]
    requests[17] = bytes(frame_bytes_max - 85)
    requests[30] += bytes(frame_bytes_max)
    queue.put(batch_of(None, A, 1, *requests))
    queue.turn(node, 0, 0)
    assert [refusal.counter for refusal in queue.refusals] == [31]
    proposed = [payload for batch in node.batches for payload in batch]
    assert proposed == [tagged(A, number, txn) for number, txn in enumerate(requests, 1) if number != 31]
    reader = FrameReader(frame_bytes_max)
    for batch in node.batches:
        assert len(reader.feed(encode(Propose(pack(make(3, 1), batch))))) == 1


def test_the_rest_of_a_batch_that_was_split_waits_for_room_and_keeps_its_zxids() -> None:
    machine = Picky()
    queue, node = opened(machine, frame_bytes_max=85 + 100), Node()
    node.room = 1
    queue.put(batch_of(None, A, 1, bytes(90), bytes(91), bytes(92)))
    queue.turn(node, 0, 0)
    assert queue.promised
    node.room = 10
    queue.turn(node, 0, 0)
    assert [zxid for _, zxid, _ in machine.seen] == [make(3, 1), make(3, 2), make(3, 3)]
    assert [len(payload) - 16 for batch in node.batches for payload in batch] == [90, 91, 92]
    assert node.last == make(3, 3)


def test_if_all_are_refused_nothing_is_proposed() -> None:
    queue, node = opened(Picky()), Node()
    queue.put(batch_of(None, A, 1, b"no", b"no"))
    queue.turn(node, 0, 0)
    assert node.batches == []
    assert not queue.busy


def test_prepared_request_keeps_its_zxid_while_the_node_is_full() -> None:
    """Otherwise a transaction would be applied at another zxid than it was prepared for."""
    machine = Picky()
    queue, node = opened(machine), Node()
    node.room = 0
    queue.put(batch_of(None, A, 1, b"x"))
    queue.turn(node, 0, 0)
    promised = queue.promised
    assert promised
    queue.put(batch_of(None, A, 2, b"y"))
    queue.turn(node, 0, 0)
    assert [request for request, _, _ in machine.seen] == [b"x"], "nothing more is prepared meanwhile"
    node.room = 10
    queue.turn(node, 0, 0)
    promised = queue.promised
    assert not promised
    assert node.batches == [[tagged(A, 1, b"X")], [tagged(A, 2, b"Y")]]
    assert [zxid for _, zxid, _ in machine.seen] == [make(3, 1), make(3, 2)]


def test_requests_of_a_lost_link_are_dropped() -> None:
    queue, node, gone, stays = opened(Picky()), Node(), link(2), link(3)
    queue.put(batch_of(gone, A, 1, b"no", b"a"))
    queue.put(batch_of(stays, B, 1, b"b"))
    queue.drop(gone)
    queue.turn(node, 0, 0)
    assert node.batches == [[tagged(B, 1, b"B")]]
    assert queue.refusals == []


def test_a_link_that_goes_in_the_middle_of_its_parcel() -> None:
    queue, node, gone = opened(batch_entries_max=2), Node(), link()
    node.room = 2
    queue.put(batch_of(gone, A, 1, b"1", b"2", b"3", b"4", b"5"))
    queue.put(batch_of(None, B, 1, b"b1", b"b2"))
    queue.turn(node, 0, 0)
    assert queue.promised, "3 and 4 were prepared"
    queue.drop(gone)
    node.room = 100
    queue.turn(node, 0, 0)
    assert node.batches == [
        [tagged(A, 1, b"1"), tagged(A, 2, b"2")],
        [tagged(A, 3, b"3"), tagged(A, 4, b"4")],
        [tagged(B, 1, b"b1"), tagged(B, 2, b"b2")],
    ]


def test_a_member_cannot_put_more_on_the_desk_than_it_may_have_outstanding() -> None:
    queue, source = opened(submits_max=2), link()
    assert queue.put(batch_of(source, A, 1, b"1", b"2", b"3", b"4"))
    assert not queue.put(batch_of(source, A, 5, b"5"))
    queue.turn(Node(), 0, 0)
    assert queue.put(batch_of(source, A, 5, b"5"))


def test_before_it_is_open_parcels_lie_and_wait() -> None:
    """A learner may serve before its leader does: its requests come for an epoch that is not open here yet."""
    queue, node = ProposalQueue(Machine(), Limits(), LOG), Node()
    queue.put(batch_of(link(), A, 1, b"early"))
    queue.turn(node, 0, 0)
    assert node.batches == []
    queue.open(EPOCH)
    queue.turn(node, 0, 0)
    assert node.batches == [[tagged(A, 1, b"early")]]


def test_parcels_for_another_epoch_never_come_true() -> None:
    queue, node = ProposalQueue(Machine(), Limits(), LOG), Node()
    queue.put(batch_of(link(), A, 1, b"for 2", epoch=Epoch(2)))
    queue.open(EPOCH)
    queue.turn(node, 0, 0)
    assert node.batches == []
    queue.close()
    queue.put(batch_of(link(), A, 1, b"for 2", epoch=Epoch(2)))
    queue.put(batch_of(link(), A, 1, b"for 3"))
    queue.open(EPOCH)
    queue.turn(node, 0, 0)
    assert node.batches == [[tagged(A, 1, b"for 3")]]


@pytest.mark.parametrize("how", ["closed", "deposed", "reopened"])
def test_when_the_epoch_is_over_the_desk_is_clear(how: str) -> None:
    queue, node = opened(Picky()), Node()
    node.room = 0
    queue.put(batch_of(None, A, 1, b"x"))
    queue.turn(node, 0, 0)
    if how == "closed":
        queue.close()
    elif how == "deposed":
        node.error = NotLeader("no more")
        queue.turn(node, 0, 0)
        node.error = None
    else:
        queue.open(Epoch(4))
    assert not queue.busy
    assert not queue.promised
    node.room = 10
    queue.turn(node, 0, 0)
    assert node.batches == []
