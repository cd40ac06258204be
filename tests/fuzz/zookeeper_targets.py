"""Every decoder, first of all those of ZooKeeper's protocol and files, as a function of arbitrary bytes.

A target returns, or raises a declared error of its module: anything else is a bug. It has
seeds, accepted bytes, because noise alone seldom passes the first length.

Run under atheris, which traces branches: `python -m tests.fuzz.zookeeper_targets requests`.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from typing import Final

from attrs import evolve

from tests.fuzz import apache_targets, client_target, other_targets
from tests.fuzz.target import FRAME_BYTES_MAX, Target, in_pieces
from tests.unit.wire.der_certificates import COMMON_NAME, certificate, name
from zab.admin import http
from zab.admin.http_connection import HttpConnection
from zab.config.jaas import parse_jaas
from zab.core.ensemble import Ensemble
from zab.core.errors import ConfigError, DamagedError, WireError
from zab.runtime.admin import report
from zab.store.acl import OPEN
from zab.store.acl_schemes import digest_is_valid, ip_is_valid, ip_matches, sasl_is_valid, x509_is_valid
from zab.store.operations import Op
from zab.store.store import Store
from zab.wire import jute
from zab.wire.certificates import subject_of
from zab.wire.client import connect, replies, requests
from zab.wire.client.client_frames import ConnectionOpening, ReplyReader, RequestReader
from zab.wire.client.connect import ConnectRequest, ConnectResponse
from zab.wire.disk_compression import gunzip, unsnappy, unsnappy_block
from zab.wire.disk_files import decode_number, parse_name
from zab.wire.disk_log import LogReader, log_chunks
from zab.wire.disk_snapshot import FileDigest, FileNode, SnapshotReader, snapshot_chunks
from zab.wire.disk_store import arrival, replay
from zab.wire.disk_txn import KINDS as TXN_KINDS
from zab.wire.disk_txn import FileTxn, decode_txn, encode_txn
from zab.wire.jks import MAGIC, decode_jks
from zab.wire.sasl import DigestClient, DigestServer, SaslError, parse_directives


def _requests(data: bytes) -> bool:
    """The first byte selects the operation, else the search would mostly be for an opcode."""
    known = sorted(requests.SHAPES)
    opcode, body = known[data[0] % len(known)] if data else 999, data[1:]
    fields = requests.decode_request(opcode, body)
    if isinstance(fields, requests.RejectedRequest):
        return False
    again = requests.encode_request(opcode, 1, fields)
    assert requests.decode_request(opcode, again[12:]) == fields
    return True


def _replies(data: bytes) -> bool:
    known = sorted(replies.BODIES)
    opcode, body = known[data[0] % len(known)] if data else known[0], data[1:]
    with suppress(WireError):
        value = replies.decode_body(opcode, body)
        assert replies.decode_body(opcode, replies.encode_reply(opcode, 1, 1, value)[20:]) == value
        return True
    return False


def _events(data: bytes) -> bool:
    with suppress(WireError):
        replies.decode_event(data)
        return True
    return False


def _request_stream(data: bytes) -> bool:
    reader = RequestReader(FRAME_BYTES_MAX)
    with suppress(WireError):
        for piece in in_pieces(data, 7):
            for _, opcode, body in reader.feed(piece):
                requests.decode_request(opcode, body)
            assert reader.held_bytes <= FRAME_BYTES_MAX + 11
        return True
    return False


def _reply_stream(data: bytes) -> bool:
    reader = ReplyReader(FRAME_BYTES_MAX)
    with suppress(WireError):
        for piece in in_pieces(data, 7):
            reader.feed(piece)
            assert reader.held_bytes <= FRAME_BYTES_MAX + 11
        return True
    return False


def _opening(data: bytes) -> bool:
    opening = ConnectionOpening(FRAME_BYTES_MAX)
    with suppress(WireError):
        return any(opening.open(piece) is not None for piece in in_pieces(data, 7))
    return False


def _connect_response(data: bytes) -> bool:
    with suppress(WireError):
        connect.decode_connect_response(data)
        return True
    return False


def _text(data: bytes) -> bool:
    jute.text_of(data).encode()
    return True


def _txn(data: bytes) -> bool:
    with suppress(DamagedError):
        txn = decode_txn(data)
        assert decode_txn(encode_txn(txn)) == txn
        return True
    return False


def _log(data: bytes) -> bool:
    with suppress(DamagedError):
        reader = LogReader(in_pieces(data, 11), record_bytes_max=FRAME_BYTES_MAX)
        assert [txn for txn in reader if txn.kind not in TXN_KINDS] == []
        return reader.end > 16
    return False


def _snapshot(data: bytes) -> bool:
    with suppress(DamagedError):
        reader = SnapshotReader(in_pieces(data, 11), record_bytes_max=FRAME_BYTES_MAX)
        return len(list(reader)) > 0
    return False


def _move_in(data: bytes) -> bool:
    store = Store()
    with suppress(DamagedError):
        store.restore(arrival(SnapshotReader(in_pieces(data, 11), record_bytes_max=FRAME_BYTES_MAX), 1))
        store.tree.check()
        return True
    return False


def _replay(data: bytes) -> bool:
    """The records as they are: under a checksum, noise would seldom get as far as to be replayed."""
    store, accepted = Store(), False
    for zxid, payload in enumerate(data.split(b"next"), 1):
        with suppress(DamagedError):
            replay(store, [evolve(decode_txn(payload), zxid=zxid)])
            accepted = True
    assert set(store.tree.children) <= store.tree.nodes.keys()
    return accepted


def _gzip(data: bytes) -> bool:
    with suppress(DamagedError):
        return b"".join(gunzip(in_pieces(data, 11))) != b""
    return False


def _snappy(data: bytes) -> bool:
    with suppress(DamagedError):
        return unsnappy_block(data) != b""
    with suppress(DamagedError):
        return b"".join(unsnappy(in_pieces(data, 11))) != b""
    return False


def _small_files(data: bytes) -> bool:
    text = data.decode("latin-1")
    accepted = parse_name(text) is not None
    with suppress(DamagedError):
        decode_number(data)
        accepted = True
    with suppress(ConfigError):
        Ensemble.parse(text)
        accepted = True
    return accepted


_USERS: Final = {"bob": "secret", "jürgen": "größe"}


def _sasl_server(data: bytes) -> bool:
    """No noise is a proof: an accepted client has sent exactly the right response."""
    server = DigestServer(b"nonce", _USERS.get)
    server.step(b"")
    with suppress(SaslError):
        server.step(data)
        assert server.user in _USERS
        return True
    assert server.user is None
    return False


def _sasl_client(data: bytes) -> bool:
    client = DigestClient("bob", "secret", b"cnonce")
    with suppress(SaslError):
        response = client.step(data)
        assert parse_directives(response)["username"] == [b"bob"]
        return True
    return False


def _jaas(data: bytes) -> bool:
    with suppress(ConfigError):
        return bool(parse_jaas(data.decode("latin-1"), "it"))
    return False


def _jks(data: bytes) -> bool:
    with suppress(WireError):
        decode_jks(data, "")
        return True
    return False


def _certificate(data: bytes) -> bool:
    with suppress(WireError):
        subject_of(data)
        return True
    return False


def _id_of_an_acl(data: bytes) -> bool:
    text = jute.text_of(data)
    valid = [of(text) for of in (digest_is_valid, ip_is_valid, sasl_is_valid, x509_is_valid)]
    if ip_matches(text, "10.0.0.1"):
        assert valid[1]
    return any(valid)


# -- what they accept ----------------------------------------------------------------------------------

_STAT: Final = tuple(range(11))
_OPERATIONS: Final = {
    Op.CREATE: ("/a", b"hi", OPEN, 0),
    Op.CREATE_TTL: ("/a", None, ((1, "ip", "::1"),), 5, 1000),
    Op.SET_DATA: ("/a", b"hi", -1),
    Op.GET_DATA: ("/ü", True),
    Op.SET_ACL: ("/a", OPEN, 3),
    Op.RECONFIG: ("server.1=a:1:2", None, None, -1),
    Op.AUTH: (0, "digest", b"u:p"),
    Op.SET_WATCHES2: (7, ("/a", "/b"), (), ("/c",), (), ("/d",)),
    Op.MULTI: ((Op.CHECK, ("/a", 0)), (Op.CREATE2, ("/b", b"", OPEN, 2))),
    Op.MULTI_READ: ((Op.GET_DATA, ("/a", False)), (Op.GET_CHILDREN, ("/", True))),
}
_ANSWERS: Final = {
    Op.CREATE: "/a",
    Op.CREATE2: ("/a", _STAT),
    Op.GET_DATA: (b"hi", _STAT),
    Op.GET_ACL: (OPEN, _STAT),
    Op.GET_CHILDREN2: (["a", "ü"], _STAT),
    Op.MULTI: [(Op.ERROR, -101), (Op.CREATE, "/a"), (Op.GET_DATA, (None, _STAT))],
    Op.WHO_AM_I: [("ip", "::1")],
}
_TXNS: Final = [
    FileTxn(1, 0, 1, 2, Op.CREATE_SESSION, (30_000,)),
    FileTxn(1, 1, 2, 3, Op.CREATE, ("/a", b"hi", OPEN, True, 1), (2, 1 << 63)),
    FileTxn(1, 2, 3, 4, Op.MULTI, ((Op.SET_DATA, ("/a", None, 3)), (Op.ERROR, (-2,))), (2, 7)),
    FileTxn(1, 3, 4, 5, Op.CREATE_TTL, ("/a/t", b"", OPEN, 2, 5000)),
    FileTxn(1, 4, 5, 6, Op.CREATE_CONTAINER, ("/c", b"", OPEN, 2)),
    FileTxn(1, 5, 6, 7, Op.SET_ACL, ("/c", ((1, "ip", "::1"),), 1)),
    FileTxn(1, 6, 7, 8, Op.DELETE, ("/c",)),
    FileTxn(1, 7, 8, 9, Op.CLOSE_SESSION, (("/a", "/b"),)),
]
_SNAPSHOT: Final = b"".join(
    snapshot_chunks(
        {1: 4000},
        {5: OPEN},
        [FileNode("", b"", -1, (0,) * 9), FileNode("/a", None, 5, (1,) * 9)],
        FileDigest(1, 2, 3),
        4,
    )
)
_SNAPPY_BLOCK: Final = b"\x11\x08abc\x15\x03\x04xy\x0a\x02\x00"


def _response(user: str) -> bytes:
    """Return the right response."""
    return DigestClient(user, _USERS[user], b"cnonce").step(DigestServer(b"nonce", _USERS.get).step(b""))


_CERTIFICATE: Final = certificate(name((COMMON_NAME, 0x0C, b"joe")))
_JKS: Final = MAGIC + bytes.fromhex("00000002 00000001 00000002 0001 61 0000000000000000 0005") + b"X.509\0\0\0\x01c"


def _picked(known: list[int], opcode: int, body: bytes) -> bytes:
    return bytes((known.index(opcode),)) + body


def _http(data: bytes) -> bool:
    """Whatever the pieces: the same requests, or the same refusal."""
    whole, pieces = _http_in_pieces(data, len(data) or 1), _http_in_pieces(data, 7)
    assert whole == pieces
    return bool(whole)


def _http_in_pieces(data: bytes, size: int) -> list[http.AdminRequest]:
    reader, found = HttpConnection(1000, 100), []
    with suppress(http.HttpError):
        for piece in in_pieces(data, size):
            reader.feed(piece)
            while request := reader.next():
                found.append(request)
    return found


def _reports(data: bytes) -> bool:
    with suppress(WireError):
        found = report.decode_reports(data)
        assert report.decode_reports(report.encode_reports(found)) == found
        return True
    return False


_REQUESTS: Final = [requests.encode_request(opcode, 1, fields) for opcode, fields in _OPERATIONS.items()]
_REPLIES: Final = [replies.encode_reply(opcode, 1, 2, value) for opcode, value in _ANSWERS.items()]
TARGETS: Final = {
    "http": Target(
        _http,
        [
            b"GET /commands/x?a=%20b HTTP/1.1\r\nHost: a\r\nA: b\r\n\r\n",
            b"POST / HTTP/1.0\r\nContent-Length: 2\r\n\r\nhi" * 2,
        ],
    ),
    "reports": Target(
        _reports, [report.encode_reports([(5, report.Report(1, warnings=("a",))), (0, report.Report(2))])]
    ),
    "requests": Target(
        _requests,
        [
            _picked(sorted(requests.SHAPES), opcode, frame[12:])
            for opcode, frame in zip(_OPERATIONS, _REQUESTS, strict=True)
        ],
    ),
    "replies": Target(
        _replies,
        [_picked(sorted(replies.BODIES), opcode, frame[20:]) for opcode, frame in zip(_ANSWERS, _REPLIES, strict=True)],
    ),
    "events": Target(_events, [replies.encode_event(2, "/a", 1)[20:]]),
    "request stream": Target(_request_stream, [b"".join(_REQUESTS)]),
    "reply stream": Target(_reply_stream, [b"".join(_REPLIES)]),
    "client": Target(client_target.run, client_target.SEEDS),
    "opening": Target(
        _opening, [connect.encode_connect_request(ConnectRequest(0, 9)) + requests.PING, b"stmk12345678"]
    ),
    "connect response": Target(
        _connect_response, [connect.encode_connect_response(ConnectResponse(9, 8, bytes(16)))[4:]]
    ),
    "text": Target(_text, ["a\U0001f600".encode("utf-16-le"), bytes.fromhex("61eda0bdedb88062")]),
    "txn": Target(_txn, [encode_txn(txn) for txn in _TXNS]),
    "log": Target(_log, [b"".join(log_chunks(_TXNS, 1000))]),
    "snapshot": Target(_snapshot, [_SNAPSHOT]),
    "move in": Target(_move_in, [_SNAPSHOT]),
    "replay": Target(_replay, [b"next".join(encode_txn(txn) for txn in _TXNS)]),
    "gzip": Target(_gzip, [bytes.fromhex("1f8b08000000000002034b4c4a4ec48100d18ef6a81b000000")]),
    "snappy": Target(
        _snappy,
        [_SNAPPY_BLOCK, b"\x82SNAPPY\0\0\0\0\1\0\0\0\1" + len(_SNAPPY_BLOCK).to_bytes(4, "big") + _SNAPPY_BLOCK],
    ),
    "sasl server": Target(_sasl_server, [_response("bob"), _response("jürgen")]),
    "sasl client": Target(_sasl_client, [DigestServer(b"nonce", _USERS.get).step(b"")]),
    "jaas": Target(_jaas, [b'Server { // x\n a.DigestLoginModule required user_bob="b\\"b" debug=true; };']),
    "jks": Target(_jks, [_JKS + bytes(20)]),
    "certificate": Target(_certificate, [_CERTIFICATE]),
    "id of an acl": Target(_id_of_an_acl, [b"CN=a\\,b+OU=#0c0161,O=c", b"fe80::1/10", b"10.0.0.0/8", b"a/b@c", b"a:b"]),
    **other_targets.TARGETS,
    **apache_targets.TARGETS,
    "small files": Target(_small_files, [b"12\n", b"log.1a", b"server.1=h:1:2:participant;3\ngroup.1=1"]),
}


def main(name: str) -> None:
    """Fuzz until a failure."""
    target = TARGETS[name]
    atheris = import_module("atheris")
    atheris.instrument_all()
    atheris.Setup([sys.argv[0], *sys.argv[2:]], target.run)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1])
