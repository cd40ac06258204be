"""Bytes as they were seen on the wire between clients and servers that are not ours."""

from __future__ import annotations

import pytest

from zab.store.acl import OPEN
from zab.store.operations import Fields, Op
from zab.store.server_watches import EventType
from zab.wire.client import connect, multi_codec, replies, requests
from zab.wire.client.client_frames import FOUR_LETTER_WORDS, ConnectionOpening, ReplyReader, RequestReader
from zab.wire.client.connect import ConnectRequest

NEW_SESSION = bytes.fromhex(
    "0000002d 00000000 0000000000000000 00002710 0000000000000000 00000010" + "00" * 16 + "00"
)  # fmt: skip
CREATE = bytes.fromhex(
    "00000033 00000001 00000001 00000002 2f61 00000002 6869"
    "00000001 0000001f 00000005 776f726c64 00000006 616e796f6e65 00000000"
)
CREATED = bytes.fromhex("00000016 00000001 0000000100000002 00000000 00000002 2f61")
PING = bytes.fromhex("00000008 fffffffe 0000000b")
CLOSE = bytes.fromhex("00000008 00000005 fffffff5")
EVENT = bytes.fromhex("0000001e ffffffff 0000000100000003 00000000 00000003 00000003 00000002 2f61")
MULTI = bytes.fromhex(
    "00000037 00000002 0000000e 0000000d 00 ffffffff 00000002 2f61 00000000"
    "00000002 00 ffffffff 00000002 2f62 ffffffff ffffffff 01 ffffffff"
)
MULTI_FAILED = bytes.fromhex(
    "00000033 00000002 0000000100000004 00000000 ffffffff 00 00000000 00000000"
    "ffffffff 00 ffffff9b ffffff9b ffffffff 01 ffffffff"
)


def test_a_new_session() -> None:
    request = ConnectRequest(last_zxid_seen=0, timeout_ms=10000)
    assert connect.encode_connect_request(request) == NEW_SESSION
    assert ConnectionOpening().open(NEW_SESSION) == request


@pytest.mark.parametrize(
    ("frame", "xid", "opcode", "fields"),
    [
        (CREATE, 1, Op.CREATE, ("/a", b"hi", OPEN, 0)),
        (PING, -2, Op.PING, ()),
        (CLOSE, 5, Op.CLOSE_SESSION, ()),
        (MULTI, 2, Op.MULTI, ((Op.CHECK, ("/a", 0)), (Op.DELETE, ("/b", -1)))),
    ],
    ids=["create", "ping", "close", "multi"],
)
def test_requests(frame: bytes, xid: int, opcode: int, fields: Fields) -> None:
    assert requests.encode_request(opcode, xid, fields) == frame
    assert RequestReader().feed(frame) == [(xid, opcode, frame[12:])]
    assert requests.decode_request(opcode, frame[12:]) == fields


def test_the_constant_ping_is_the_ping() -> None:
    assert requests.PING == PING


def test_the_reply_to_create() -> None:
    zxid = 0x100000002
    assert replies.encode_reply(Op.CREATE, 1, zxid, "/a") == replies.path_reply(1, zxid, "/a") == CREATED
    assert ReplyReader().feed(CREATED) == [(1, zxid, 0, CREATED[20:])]
    assert replies.decode_body(Op.CREATE, CREATED[20:]) == "/a"


def test_an_event() -> None:
    assert replies.encode_event(EventType.DATA_CHANGED, "/a", 0x100000003) == EVENT
    assert ReplyReader().feed(EVENT) == [(replies.EVENT_XID, 0x100000003, 0, EVENT[20:])]
    assert replies.decode_event(EVENT[20:]) == (EventType.DATA_CHANGED, replies.SYNC_CONNECTED, "/a")


def test_a_multi_that_failed() -> None:
    results: list[multi_codec.Result] = [(Op.ERROR, 0), (Op.ERROR, -101)]
    assert replies.encode_reply(Op.MULTI, 2, 0x100000004, results) == MULTI_FAILED
    assert replies.decode_body(Op.MULTI, MULTI_FAILED[20:]) == results


def test_the_words_as_the_lengths_they_are_mistaken_for() -> None:
    assert FOUR_LETTER_WORDS[(1920298859).to_bytes(4, "big")] == "ruok"
    assert FOUR_LETTER_WORDS[(1936881266).to_bytes(4, "big")] == "srvr"
    assert min(int.from_bytes(word, "big") for word in FOUR_LETTER_WORDS) > 1 << 30, "no frame is that long"


def test_all_of_one_receive_in_one_pass() -> None:
    xids = [xid for xid, _, _ in RequestReader().feed(CREATE + MULTI + PING + CLOSE)]
    assert xids == [1, 2, -2, 5]
