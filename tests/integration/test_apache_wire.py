"""Our codecs against Apache ZooKeeper: the frames of its clients and its server, and its files.

Everything that passes through a recording proxy is decoded and encoded again, and must be the same bytes.
"""

from __future__ import annotations

import subprocess
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from harness import apache_zookeeper
from tests.integration import apache
from tests.integration.raw_client import PATIENCE_SECONDS, Client
from zab.store.acl import OPEN
from zab.store.operations import Op
from zab.store.server_watches import EventType
from zab.store.store import Store
from zab.store.znode import stat_of
from zab.wire.client import connect, multi_codec, replies, requests
from zab.wire.client.client_frames import Command, ConnectionOpening, FirstFrame, ReplyReader, RequestReader
from zab.wire.disk_compression import plain
from zab.wire.disk_files import (
    CURRENT_EPOCH,
    Compression,
    logs_behind,
    parse_name,
    snapshot_name,
    snapshots_newest_first,
)
from zab.wire.disk_log import LogReader, log_chunks
from zab.wire.disk_snapshot import (
    OPEN_KEY,
    FileDigest,
    FileNode,
    SnapshotReader,
    node_digest,
    snapshot_chunks,
    tree_digest,
)
from zab.wire.disk_store import arrival, departure, replay
from zab.wire.disk_txn import FileTxn

pytestmark = [apache.needs_apache, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[apache.Server]:
    with apache.running(tmp_path_factory.mktemp("apache")) as server:
        yield server


# -- everything heard is encoded again -----------------------------------------------------------------


def said_again(heard: apache.Heard) -> set[int]:
    """The opcodes of one recorded connection, each with a request and an answer that we would have sent."""
    from_client, from_server = bytes(heard.from_client), bytes(heard.from_server)
    opening = ConnectionOpening()
    request = opening.open(from_client)
    assert request is not None
    if isinstance(request, Command):
        return set()
    assert connect.encode_connect_request(request) + opening.rest == from_client
    first = FirstFrame()
    payload = first.feed(from_server)
    assert payload is not None
    response = connect.encode_connect_response(connect.decode_connect_response(payload))
    assert response + first.rest == from_server

    said: list[bytes] = []
    asked: defaultdict[int, deque[int]] = defaultdict(deque)
    for xid, opcode, body in RequestReader().feed(opening.rest):
        fields = requests.decode_request(opcode, body)
        assert not isinstance(fields, requests.RejectedRequest), fields
        said.append(requests.encode_request(opcode, xid, fields))
        asked[xid].append(opcode)
    assert b"".join(said) == opening.rest

    said.clear()
    seen: set[int] = set()
    for xid, zxid, error, body in ReplyReader().feed(first.rest):
        if xid == replies.EVENT_XID:
            kind, state, path = replies.decode_event(body)
            said.append(replies.encode_event(kind, path, zxid, state))
            continue
        opcode = asked[xid].popleft()
        if error:
            said.append(replies.body_reply(xid, zxid, body, error))
            assert not body
            continue
        seen.add(opcode)
        said.append(replies.encode_reply(opcode, xid, zxid, replies.decode_body(opcode, body)))
    assert b"".join(said) == first.rest
    return seen


T = TypeVar("T")


def eventually(look: Callable[[], T | None]) -> T:
    """Wait until a condition holds that another thread makes true."""
    patience = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < patience:
        if (found := look()) is not None:
            return found
        time.sleep(0.01)
    raise AssertionError("it never came")


def test_every_operation_of_ours_is_understood(server: apache.Server) -> None:
    with apache.recording(server.port) as (port, connections):
        client = Client(port)
        ask = client.ask
        assert ask(Op.CREATE, "/o", b"data", OPEN, 0) == "/o"
        path, stat = ask(Op.CREATE2, "/o/s-", None, OPEN, 2)
        assert path == "/o/s-0000000000"
        assert (stat[8], stat[9]) == (0, 0)
        assert ask(Op.CREATE_CONTAINER, "/o/c", b"", OPEN, 4)[0] == "/o/c"
        assert ask(Op.CREATE_TTL, "/o/t", b"t", OPEN, 5, 100_000)[0] == "/o/t"
        assert ask(Op.CREATE, "/o/e", b"", OPEN, 1) == "/o/e"
        data, stat = ask(Op.GET_DATA, "/o", True)
        assert (data, stat[8], stat[9]) == (b"data", 4, 4)
        assert ask(Op.GET_DATA, "/o/s-0000000000", False)[0] is None
        assert ask(Op.EXISTS, "/o", False) == stat
        assert ask(Op.EXISTS, "/none", True) == -101
        assert set(ask(Op.GET_CHILDREN, "/o", True)) == {"s-0000000000", "c", "t", "e"}
        assert len(ask(Op.GET_CHILDREN2, "/o", False)[0]) == 4
        assert ask(Op.GET_ALL_CHILDREN_NUMBER, "/o") == 4
        assert ask(Op.GET_EPHEMERALS, "/o") == ["/o/e"]
        assert ask(Op.GET_EPHEMERALS, None) == ["/o/e"]
        assert ask(Op.SYNC, "/o") == "/o"
        assert ask(Op.GET_ACL, "/o")[0] == OPEN
        entries = ((31, "world", "anyone"), (1, "ip", "10.0.0.0/8"))
        assert ask(Op.SET_ACL, "/o", entries, -1)[6] == 1
        assert ask(Op.GET_ACL, "/o")[0] == entries
        assert ("ip", "127.0.0.1") in ask(Op.WHO_AM_I)
        assert ask(Op.CHECK_WATCHES, "/o", 2) is None
        assert ask(Op.REMOVE_WATCHES, "/o", 1) is None
        assert ask(Op.REMOVE_WATCHES, "/o", 1) == -121
        assert ask(Op.ADD_WATCH, "/o/t", 0) == 0
        assert ask(Op.RECONFIG, None, "2", None, -1) == -123
        created: list[multi_codec.Operation] = [
            (Op.CREATE, ("/o/m", b"", OPEN, 0)), (Op.CREATE2, ("/o/m2", b"", OPEN, 0)),
            (Op.CREATE_CONTAINER, ("/o/mc", b"", OPEN, 4)), (Op.CREATE_TTL, ("/o/mt", b"", OPEN, 5, 9_999)),
            (Op.SET_DATA, ("/o/m", b"x", 0)), (Op.CHECK, ("/o/m", 1)), (Op.DELETE, ("/o/m", 1)),
        ]  # fmt: skip
        results = client.tell(Op.MULTI, tuple(created))
        assert [kind for kind, _ in results] == [1, 15, 15, 15, 5, 13, 2]
        results = client.tell(Op.MULTI, (created[0], (Op.CHECK, ("/o", 99)), created[1]))
        assert results == [(-1, 0), (-1, -103), (-1, -2)]
        reads = (
            (Op.GET_DATA, ("/o", False)),
            (Op.GET_DATA, ("/no", False)),
            (Op.GET_CHILDREN, ("/", False)),
        )
        results = client.tell(Op.MULTI_READ, reads)
        assert [kind for kind, _ in results] == [4, -1, 8]
        assert results[1] == (-1, -101)

        client.send(Op.SET_DATA, ("/o", b"new", 0))
        assert replies.decode_event(client.next()[3]) == (EventType.DATA_CHANGED, 3, "/o")
        assert replies.decode_body(Op.SET_DATA, client.next()[3])[4] == 1
        client.socket.sendall(requests.PING)
        assert client.next()[:3:2] == (requests.PING_XID, 0)
        client.send(Op.AUTH, (0, "digest", b"u:p"), requests.AUTH_XID)
        assert client.next()[:3] == (requests.AUTH_XID, 0, 0)
        lists = ("/o", "/gone"), ("/o",), ("/o",)
        for opcode, fields in (
            (Op.SET_WATCHES, (1, *lists)),
            (Op.SET_WATCHES2, (1, *lists, ("/p",), ("/r",))),
        ):
            client.send(opcode, fields, requests.SET_WATCHES_XID)
            told = [replies.decode_event(client.next()[3]) for _ in range(4)]
            assert sorted(told) == [(1, 3, "/o"), (2, 3, "/gone"), (3, 3, "/o"), (4, 3, "/o")]
            assert client.next()[:3:2] == (requests.SET_WATCHES_XID, 0)
        client.close()
    ours_and_never_answered = {Op.SASL, Op.RECONFIG, Op.DELETE}
    assert said_again(connections[0]) == set(requests.SHAPES) - ours_and_never_answered


def test_a_request_that_cannot_be_read_is_refused_as_we_refuse_it(server: apache.Server) -> None:
    client = Client(server.port)
    lies = [
        (Op.GET_DATA, "7fffffff 2f61"), (Op.GET_DATA, "fffffffe"), (Op.GET_DATA, "00000002 2f61"),
        (Op.SET_DATA, "00000002 2f61 00000009 00"), (Op.CREATE, "00000002 2f61 00000000 00000009"),
        (Op.MULTI, "00000099 00 ffffffff"), (Op.MULTI, ""), (Op.SET_WATCHES, "00"),
    ]  # fmt: skip
    for xid, (opcode, lie) in enumerate(lies, 1):
        body = bytes.fromhex(lie)
        client.socket.sendall(
            (8 + len(body)).to_bytes(4, "big") + xid.to_bytes(4, "big") + opcode.to_bytes(4, "big") + body
        )
        refused = requests.decode_request(opcode, body)
        assert isinstance(refused, requests.RejectedRequest)
        assert client.next()[:3:2] == (xid, refused.code)
    client.close()


@pytest.mark.parametrize("read_only", [None, False, True])
def test_the_answer_has_the_byte_that_the_greeting_had(server: apache.Server, read_only: bool | None) -> None:
    client = Client(server.port, read_only)
    assert (client.response.read_only is None) == (read_only is None)
    client.close()


SHELL = """
create /j data
create -e /j/e x
create -s /j/s- x
create -c /j/c x
create -t 100000 /j/t x
get -w /j
ls -s -w /j
addWatch -m PERSISTENT_RECURSIVE /j
set /j y
getEphemerals /j
getAllChildrenNumber /j
whoami
addauth digest a:b
setAcl /j auth::cdrwa
getAcl /j
sync /j
stat /j
create /j/ü ü
deleteall /j
quit
"""


def test_the_java_client(server: apache.Server, tmp_path: Path) -> None:
    with apache.recording(server.port) as (port, connections):
        command = apache_zookeeper.java("org.apache.zookeeper.ZooKeeperMain", "-server", f"127.0.0.1:{port}")
        subprocess.run(command, input=SHELL.encode(), cwd=tmp_path, check=True, capture_output=True, timeout=120)
        closed = requests.encode_request(Op.CLOSE_SESSION, 0)[-4:]
        eventually(lambda: connections[0].from_client.endswith(closed) or None)
        seen = eventually(lambda: said_again(connections[0]) or None)
    assert {1, 3, 4, 5, 6, 7, 9, 12, 14, 19, 21, 100, 103, 104, 106, 107} <= seen


def test_kazoo(server: apache.Server) -> None:
    kazoo = pytest.importorskip("kazoo.client", reason="kazoo is not installed")
    with apache.recording(server.port) as (port, connections):
        client = kazoo.KazooClient(hosts=f"127.0.0.1:{port}")
        client.start(60)
        client.add_auth("digest", "u:p")
        client.ensure_path("/k/a")
        client.create("/k/e", b"x", ephemeral=True)
        client.create("/k/s", b"x", sequence=True, include_data=True)
        client.get("/k", watch=print)
        client.get_children("/k", include_data=True)
        client.set("/k", b"1")
        client.get_acls("/k")
        transaction = client.transaction()
        transaction.create("/k/t", b"q")
        transaction.check("/k", 1)
        transaction.delete("/k/t")
        assert transaction.commit() == ["/k/t", True, True]
        client.delete("/k", recursive=True)
        client.stop()
        client.close()
    assert {1, 2, 3, 4, 5, 6, 8, 12, 14, 15, 100} <= said_again(connections[0])


# -- files ---------------------------------------------------------------------------------------------


def fill(port: int) -> None:
    """One transaction of every kind, failures included."""
    client = Client(port)
    for number in range(20):
        client.ask(Op.CREATE, f"/n{number}", None if number % 3 else b"x" * number, OPEN, 0)
    client.ask(Op.CREATE2, "/acl", b"", ((31, "digest", "u:x"), (1, "world", "anyone")), 0)
    client.ask(Op.CREATE_CONTAINER, "/n1/c", b"", OPEN, 4)
    client.ask(Op.CREATE_TTL, "/n1/t", b"ttl", OPEN, 5, 1_000_000)
    client.ask(Op.SET_DATA, "/n2", b"new", -1)
    client.ask(Op.SET_ACL, "/n2", ((31, "world", "anyone"), (1, "ip", "::1")), -1)
    client.ask(Op.DELETE, "/n3", -1)
    client.ask(Op.DELETE, "/n3", -1)
    client.ask(Op.CREATE, "/n4/ephemeral", b"", OPEN, 1)
    part = (Op.CREATE, ("/m", b"", OPEN, 0)), (Op.SET_DATA, ("/n5", b"m", -1)), (Op.CHECK, ("/n5", 1))
    client.tell(Op.MULTI, part)
    client.tell(Op.MULTI, part)
    gone = Client(port)
    gone.ask(Op.CREATE, "/left-behind", b"", OPEN, 1)
    gone.socket.close()  # without a word: its session and its node stay
    client.close()


def in_pieces(data: bytes, size: int = 100) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


def read_log(file: Path) -> list[FileTxn]:
    data = file.read_bytes()
    reader = LogReader(in_pieces(data, 4096))
    txns = list(reader)
    assert not reader.torn
    assert b"".join(log_chunks(txns, len(data))) == data, "written by us, it would be the same file"
    return txns


@pytest.mark.parametrize("compression", Compression)
def test_zookeeper_data_files_are_read(tmp_path: Path, compression: Compression) -> None:
    method = {"snapshot.compression.method": compression.value[1:]} if compression.value else {}
    for _ in range(2):  # the second start writes a snapshot of what the first one logged
        with apache.running(tmp_path, preAllocSize="64", **method) as server:
            fill(server.port)
    names = [file.name for file in server.files.iterdir()]
    newest = snapshots_newest_first(names)[0]
    assert newest.compression is compression
    data = (server.files / newest.name).read_bytes()
    raw = b"".join(plain(in_pieces(data), compression))
    reader = SnapshotReader(in_pieces(raw))
    nodes = list(reader)
    again = snapshot_chunks(reader.sessions, reader.acls, nodes, reader.digest, reader.last_zxid)
    assert b"".join(again) == raw, "written by us, it would be the same file"
    assert reader.last_zxid == newest.zxid > 0
    assert reader.digest == FileDigest(newest.zxid, 2, tree_digest(nodes))
    assert len(reader.sessions) == 1
    assert {node.path for node in nodes} >= {"", "/n0", "/n1/c", "/n1/t", "/left-behind", "/zookeeper/config"}

    logs = sorted(file for name in names if (file := parse_name(name)) and file.is_log)
    histories = [read_log(server.files / file.name) for file in logs]
    assert [history[0].zxid for history in histories] == [file.zxid for file in logs]
    txns = [txn for history in histories for txn in history]
    assert [txn.zxid for txn in txns] == list(range(1, len(txns) + 1))
    assert {txn.kind for txn in txns} == {-11, -10, -1, 1, 2, 5, 7, 14, 15, 19, 21}
    (at_snapshot,) = [txn for txn in txns if txn.zxid == newest.zxid]
    assert at_snapshot.digest in (None, (2, reader.digest.value))
    assert logs_behind(names, newest.zxid)[0].zxid <= newest.zxid + 1


def test_a_server_moves_in_with_us_and_out_again(tmp_path: Path) -> None:
    """From its first snapshot, which holds nothing, through its whole log; then on to another server of theirs."""
    with apache.running(tmp_path / "theirs") as server:
        fill(server.port)
    names = [file.name for file in server.files.iterdir()]
    oldest = snapshots_newest_first(names)[-1]
    store = Store()
    store.restore(arrival(SnapshotReader([(server.files / oldest.name).read_bytes()]), oldest.zxid, bytes(16)))
    came = [replay(store, read_log(server.files / file.name)) for file in logs_behind(names, oldest.zxid)]
    assert came[-1].digest_agrees
    assert came[-1].digest_zxid > 0
    store.tree.check()
    assert len(store.sessions.table) == 1, "the client that went without a word"

    ours = tmp_path / "ours" / "data" / "version-2"
    ours.mkdir(parents=True)
    (ours / snapshot_name(store.zxid)).write_bytes(b"".join(departure(store)))
    with apache.running(tmp_path / "ours") as server:
        client = Client(server.port)
        for path in sorted(store.tree.nodes):
            node = store.tree.nodes[path]
            answer = client.ask(Op.GET_DATA, path, False)
            if node[1] == OPEN:
                assert answer == (node[0], stat_of(node)), path
            assert set(client.ask(Op.GET_CHILDREN, path, False)) == set(store.tree.children_of(path))
        assert "/left-behind" in store.tree.nodes
        client.close()


def test_a_directory_that_we_wrote_is_one_it_can_start_on(tmp_path: Path) -> None:
    files = tmp_path / "data" / "version-2"
    files.mkdir(parents=True)
    zxid, now = 0x100000005, 1_700_000_000_000
    plain_stat = (zxid, zxid, now, now, 0, 0, 0, 0, zxid)
    nodes = [
        FileNode("", b"", OPEN_KEY, (0, 0, 0, 0, 0, 2, 0, 0, zxid)),
        FileNode("/zookeeper", b"", OPEN_KEY, (0,) * 9),
        FileNode("/zookeeper/quota", b"", OPEN_KEY, (0,) * 9),
        FileNode("/zookeeper/config", b"", 1, (0,) * 9),
        FileNode("/ours", "ü".encode(), OPEN_KEY, plain_stat),
        FileNode("/null", None, 2, plain_stat),
    ]
    acls = {1: ((1, "world", "anyone"),), 2: ((31, "ip", "127.0.0.1"),)}
    digest = FileDigest(zxid, 2, tree_digest(nodes))
    (files / snapshot_name(zxid)).write_bytes(b"".join(snapshot_chunks({}, acls, nodes, digest, zxid)))
    stat = (zxid, zxid + 1, now, now + 1, 1, 0, 0, 0, zxid)
    behind = digest.value - node_digest("/ours", "ü".encode(), plain_stat) + node_digest("/ours", b"logged", stat)
    txns = [
        FileTxn(7, 1, zxid, now, Op.ERROR, (-101,)),
        FileTxn(7, 2, zxid + 1, now + 1, Op.SET_DATA, ("/ours", b"logged", 1), (2, behind)),
        FileTxn(7, 3, zxid + 2, now + 2, Op.CREATE, ("/new", b"", OPEN, False, 3)),
    ]
    (files / f"log.{zxid:x}").write_bytes(b"".join(log_chunks(txns)))
    (files / CURRENT_EPOCH).write_bytes(b"1")
    with apache.running(tmp_path) as server:
        client = Client(server.port)
        assert client.ask(Op.GET_DATA, "/ours", False)[0] == b"logged"
        assert client.ask(Op.GET_DATA, "/null", False)[0] is None
        assert client.ask(Op.GET_ACL, "/null")[0] == acls[2]
        assert client.ask(Op.GET_DATA, "/new", False)[1][0] == zxid + 2
        assert "zk_digest_mismatches_count\t0" in apache.ask(server.port, "mntr")
        client.close()
