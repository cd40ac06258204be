"""A step of a script as a request that a server reads, and what a server answers as a reply of the history."""

from __future__ import annotations

import pytest

from harness.faults import Step
from harness.history import MODES, OPERATIONS, WATCHES, Reply, Request
from harness.protocol import EVENTS, operation_of, refusal, reply_of, request_from, request_of
from zab.store.error_codes import ErrorCode
from zab.store.operations import Fields, Op
from zab.store.server_watches import EventType
from zab.store.znode import Stat
from zab.wire.client.requests import encode_request

STAT = Stat(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)


@pytest.mark.parametrize("op", [op for op in OPERATIONS if op != "multi"])
@pytest.mark.parametrize("watch", WATCHES)
def test_every_step_can_be_sent(op: str, watch: str) -> None:
    for mode in MODES if op == "create" else ("",):
        request = request_of([Step(op, "/a", mode=mode, watch=watch)], 1)
        assert encode_request(*_with_xid(operation_of(request)))


def _with_xid(operation: tuple[Op, tuple[object, ...]]) -> tuple[Op, int, tuple[object, ...]]:
    op, fields = operation
    return op, 1, fields


def test_several_steps_are_a_multi_and_each_writes_something_else() -> None:
    request = request_of([Step("set", "/a", size=8), Step("check", "/b", 3), Step("create", "/c", size=1)], 12)
    assert request == Request(
        "multi",
        parts=(Request("set", "/a", b"12.0...."), Request("check", "/b", None, 3), Request("create", "/c", b"12.2")),
    )
    op, parts = operation_of(request)
    assert (op, [kind for kind, _ in parts]) == (Op.MULTI, [Op.SET_DATA, Op.CHECK, Op.CREATE2])


def test_a_multi_that_failed_says_why_once() -> None:
    request = request_of([Step("set", "/a"), Step("check", "/b", 3)], 1)
    value = [(Op.ERROR, 0), (Op.ERROR, int(ErrorCode.BAD_VERSION))]
    reply = reply_of(request, Op.MULTI, 7, value)
    assert (reply.error, [part.error for part in reply.parts]) == ("BAD_VERSION", ["OK", "BAD_VERSION"])
    assert reply_of(Request("check", "/b", version=3), Op.MULTI, 7, value[1:]) == Reply("BAD_VERSION", 7)


def test_answers_are_told_in_the_words_of_the_history() -> None:
    get = reply_of(Request("get", "/a"), Op.GET_DATA, 7, (b"x", STAT))
    assert (get.zxid, get.data, get.stat and get.stat.version) == (7, b"x", STAT.version)
    assert reply_of(Request("children", "/"), Op.GET_CHILDREN2, 7, (["b", "a"], STAT)).children == ("a", "b")
    assert reply_of(Request("create", "/a"), Op.CREATE2, 7, ("/a", STAT)).path == "/a"
    assert refusal(7, ErrorCode.NO_NODE) == Reply("NO_NODE", 7)
    assert set(EVENTS) == set(EventType)


@pytest.mark.parametrize(
    "asked",
    [
        *(Request("create", "/a", b"1", mode=mode) for mode in MODES),
        Request("set", "/a", b"1", 4),
        Request("delete", "/a", version=4),
        *(Request(op, "/a", watch=watch) for op in ("get", "exists", "children") for watch in ("", "once")),
        Request("sync", "/a"),
        *(Request("watch", "/a", watch=watch) for watch in ("persistent", "recursive")),
        *(Request("unwatch", "/a", watch=watch) for watch in ("", "data", "children", "persistent", "recursive")),
        Request("multi", parts=(Request("check", "/a", version=4), Request("set", "/b", b"1", 4))),
    ],
    ids=str,
)
def test_request_survives_conversion_to_operation_and_back(asked: Request) -> None:
    assert request_from(*operation_of(asked)) == asked


def test_operation_outside_of_histories_has_no_request() -> None:
    assert request_from(Op.CLOSE_SESSION, ()) is None


def test_many_reads_in_one_have_an_answer_each() -> None:
    reads: Fields = ((Op.GET_DATA, ("/a", False)), (Op.GET_DATA, ("/b", False)))
    asked = request_from(Op.MULTI_READ, reads)
    assert asked == Request("multi", parts=(Request("get", "/a"), Request("get", "/b")))
    value = [(Op.GET_DATA, (b"1", STAT)), (Op.ERROR, ErrorCode.NO_NODE)]
    reply = reply_of(asked, Op.MULTI_READ, 7, value)
    assert [(part.data, part.error) for part in reply.parts] == [(b"1", ""), (None, "NO_NODE")]
    assert reply.error == ""
