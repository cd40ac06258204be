"""ZooKeeper's client protocol: messages round-trip for any split of the stream."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import zookeeper_values as values
from zab.store.acl import OPEN
from zab.store.error_codes import ErrorCode
from zab.store.operations import Op
from zab.store.znode import stat_fields
from zab.wire.client import connect, replies, reply_bodies, requests
from zab.wire.client.client_frames import ConnectionOpening, FirstFrame, ReplyReader, RequestReader
from zab.wire.client.connect import ConnectRequest, ConnectResponse
from zab.wire.client.reply_bodies import ReplyBody
from zab.wire.client.request_bodies import RequestBody

EXAMPLES = settings(max_examples=30)


@pytest.mark.parametrize(("opcode", "shape"), requests.SHAPES.items())
@given(data=st.data(), xid=values.INTS)
@EXAMPLES
def test_a_request_arrives_as_it_was_sent(opcode: int, shape: RequestBody, data: st.DataObject, xid: int) -> None:
    fields = data.draw(values.of_shape(shape))
    frame = requests.encode_request(opcode, xid, fields)
    assert RequestReader().feed(frame) == [(xid, opcode, frame[12:])]
    assert requests.decode_request(opcode, frame[12:]) == fields
    # Newer clients may say more than we know of.
    assert requests.decode_request(opcode, frame[12:] + b"more") == fields


@pytest.mark.parametrize(("opcode", "shape"), requests.SHAPES.items())
@given(data=st.data())
@EXAMPLES
def test_a_request_that_was_cut_is_refused(opcode: int, shape: RequestBody, data: st.DataObject) -> None:
    body = shape.encode(data.draw(values.of_shape(shape)))
    if not body:
        return
    refused = requests.decode_request(opcode, body[: data.draw(st.integers(0, len(body) - 1))])
    assert isinstance(refused, requests.RejectedRequest)
    assert refused.code == ErrorCode.MARSHALLING_ERROR


@given(st.integers(-(1 << 31), (1 << 31) - 1).filter(lambda opcode: opcode not in requests.SHAPES), st.binary())
@EXAMPLES
def test_an_operation_that_is_none(opcode: int, body: bytes) -> None:
    refused = requests.decode_request(opcode, body)
    assert isinstance(refused, requests.RejectedRequest)
    assert refused.code == ErrorCode.UNIMPLEMENTED


@pytest.mark.parametrize("opcode", [Op.CHECK, Op.DELETE_CONTAINER, Op.CREATE_SESSION, Op.ERROR, Op.NOTIFICATION])
def test_internal_znodes_are_invisible_to_clients(opcode: int) -> None:
    refused = requests.decode_request(opcode, requests.SHAPES[Op.DELETE].encode(("/a", 1)))
    assert isinstance(refused, requests.RejectedRequest)
    assert refused.code == ErrorCode.UNIMPLEMENTED


@pytest.mark.parametrize("outer", [Op.MULTI, Op.MULTI_READ])
@pytest.mark.parametrize("inner", sorted(requests.SHAPES))
def test_multi_accepts_its_maximum_of_operations(outer: int, inner: int) -> None:
    """Reads and writes do not mix, and nothing nests."""
    header = inner.to_bytes(4, "big", signed=True) + bytes.fromhex("00ffffffff")
    body = header + bytes(64) + bytes.fromhex("ffffffff01ffffffff")
    allowed = {1, 2, 5, 13, 15, 19, 21} if outer == Op.MULTI else {4, 8}
    fields = requests.decode_request(outer, body)
    if inner not in allowed:
        assert isinstance(fields, requests.RejectedRequest)
        assert f"operation {inner} cannot" in fields.reason


@pytest.mark.parametrize(("opcode", "body"), replies.BODIES.items())
@given(data=st.data(), xid=values.INTS, zxid=values.LONGS)
@EXAMPLES
def test_a_reply_arrives_as_it_was_sent(opcode: int, body: ReplyBody, data: st.DataObject, xid: int, zxid: int) -> None:
    value = data.draw(values.of_body(body))
    frame = replies.encode_reply(opcode, xid, zxid, value)
    assert ReplyReader().feed(frame) == [(xid, zxid, 0, frame[20:])]
    assert replies.decode_body(opcode, frame[20:]) == value
    assert replies.body_reply(xid, zxid, body.encode(value)) == frame


@given(values.INTS, values.LONGS, values.DATA, values.STATS, values.PATHS)
@EXAMPLES
def test_the_packed_replies_are_the_same_bytes(
    xid: int, zxid: int, data: bytes | None, stat: tuple[int, ...], path: str
) -> None:
    czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, _, children, pzxid = stat
    node = data, OPEN, czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, pzxid, children
    assert replies.node_reply(xid, zxid, node) == replies.encode_reply(Op.SET_DATA, xid, zxid, stat_fields(node))
    assert replies.data_reply(xid, zxid, data, stat) == replies.encode_reply(Op.GET_DATA, xid, zxid, (data, stat))
    assert replies.path_reply(xid, zxid, path) == replies.encode_reply(Op.CREATE, xid, zxid, path)
    assert reply_bodies.STAT.size == 68


@given(values.INTS, values.LONGS, values.INTS, st.binary(max_size=20))
@EXAMPLES
def test_an_error_is_a_header(xid: int, zxid: int, code: int, body: bytes) -> None:
    frames = replies.error_reply(xid, zxid, code) + replies.body_reply(xid, zxid, body, code)
    assert ReplyReader().feed(frames) == [(xid, zxid, code, b""), (xid, zxid, code, body)]


@given(values.LONGS, values.INTS, values.PATHS, values.INTS)
@EXAMPLES
def test_an_event_arrives_as_it_was_sent(zxid: int, kind: int, path: str, state: int) -> None:
    frame = replies.encode_event(kind, path, zxid, state)
    ((xid, at, error, body),) = ReplyReader().feed(frame)
    assert (xid, at, error) == (replies.EVENT_XID, zxid, 0)
    assert replies.decode_event(body) == (kind, state, path)


@given(st.lists(values.REQUESTS, max_size=12), st.lists(st.integers(1, 60), min_size=1, max_size=8))
@EXAMPLES
def test_requests_survive_any_cut_of_the_stream(sent: list[tuple[int, int, Any]], sizes: list[int]) -> None:
    stream = b"".join(requests.encode_request(opcode, xid, fields) for xid, opcode, fields in sent)
    reader = RequestReader()
    received: list[tuple[int, int, Any]] = []
    at = turn = 0
    while at < len(stream):
        size = sizes[turn % len(sizes)]
        for xid, opcode, body in reader.feed(stream[at : at + size]):
            received.append((xid, opcode, requests.decode_request(opcode, body)))
        at, turn = at + size, turn + 1
    assert received == sent
    assert reader.held_bytes == 0


_PASSWORDS = st.one_of(st.none(), st.binary(max_size=20))
_READ_ONLY = st.sampled_from([None, False, True])
_GREETINGS = st.builds(
    ConnectRequest, values.LONGS, values.INTS, values.LONGS, _PASSWORDS, _READ_ONLY, values.INTS
)  # fmt: skip
_ANSWERS = st.builds(ConnectResponse, values.INTS, values.LONGS, _PASSWORDS, _READ_ONLY, values.INTS)


@given(_GREETINGS, st.binary(max_size=30), st.integers(0, 80))
@EXAMPLES
def test_a_greeting_arrives_and_leaves_the_rest_alone(request: ConnectRequest, rest: bytes, cut: int) -> None:
    stream = connect.encode_connect_request(request) + rest
    opening = ConnectionOpening()
    cut = min(cut, len(stream) - len(rest) - 1)
    assert opening.open(stream[:cut]) is None
    assert opening.open(stream[cut:]) == request
    assert opening.rest == rest


@given(_ANSWERS, st.binary(max_size=30))
@EXAMPLES
def test_the_answer_arrives_and_leaves_the_rest_alone(response: ConnectResponse, rest: bytes) -> None:
    first = FirstFrame()
    payload = first.feed(connect.encode_connect_response(response) + rest)
    assert payload is not None
    assert connect.decode_connect_response(payload) == response
    assert first.rest == rest
