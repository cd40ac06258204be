from __future__ import annotations

from tests.unit.store.support import ALICE, BOB, Client, Leader, leader
from zab.store.acl import OPEN, Access
from zab.store.error_codes import ErrorCode
from zab.store.operations import Op
from zab.store.read_handler import TOO_LARGE
from zab.store.store import Store
from zab.store.store_settings import StoreSettings
from zab.store.znode import stat_of


def tree() -> Leader:
    it = leader()
    for path in ("/a", "/a/b", "/a/b/c", "/a/d", "/ab"):
        it.create(path, path.encode())
    it.create("/a/mine", flags=1)
    it.create("/bob", flags=1, session=BOB)
    return it


def test_data_and_stat() -> None:
    it = tree()
    error, node = it.store.reads.read(Op.GET_DATA, ("/a/b", False), Client())
    assert error == 0
    assert node[0] == b"/a/b"
    assert stat_of(node).num_children == 1
    assert it.store.reads.read(Op.EXISTS, ("/a/b", False), Client()) == (0, node)


def test_children() -> None:
    it, client = tree(), Client()
    names, node = it.store.reads.get_children(client, "/a", False)[1]
    assert sorted(names) == ["b", "d", "mine"]
    assert stat_of(node).num_children == 3
    assert it.store.reads.get_children(client, "/a/d", False)[1][0] == []
    assert sorted(it.store.reads.get_children(client, "/", False)[1][0]) == ["a", "ab", "bob", "zookeeper"]
    names.clear()
    assert len(it.store.reads.get_children(client, "/a", False)[1][0]) == 3, "what is handed out is the client's"


def test_all_below() -> None:
    it, client = tree(), Client()
    count = it.store.reads.count_below
    assert [count(client, path)[1] for path in ("/a", "/a/b", "/a/d", "/ab")] == [4, 1, 0, 0]
    assert count(client, "/") == (0, len(it.store.tree.nodes) - 1)
    assert count(client, "/zookeeper") == (0, 2)
    assert count(client, "/gone")[0] == ErrorCode.NO_NODE


def test_ephemerals_of_the_requesting_session() -> None:
    it = tree()
    get = it.store.reads.get_ephemerals
    for prefix in (None, "", "  ", "/"):
        assert get(Client(ALICE), prefix) == (0, ["/a/mine"])
    assert get(Client(ALICE), "/a/m") == (0, ["/a/mine"])
    assert get(Client(ALICE), "/b") == (0, [])
    assert get(Client(BOB), "/b") == (0, ["/bob"])
    assert get(Client(7), "/") == (0, [])


def test_several_reads_each_for_itself() -> None:
    it, client = tree(), Client()
    ops = ((Op.GET_DATA, ("/a", True)), (Op.GET_CHILDREN, ("/gone", True)), (Op.GET_CHILDREN, ("/ab", False)))
    error, results = it.store.reads.read(Op.MULTI_READ, ops, client)
    assert error == 0
    assert [(op, code) for op, code, _ in results] == [(4, 0), (8, -101), (8, 0)]
    assert it.store.watches.paths_of(client) == [], "the original leaves none either"
    mixed = (*ops, (Op.SET_DATA, ("/a", b"", -1)))
    assert it.store.reads.read(Op.MULTI_READ, mixed, client) == (ErrorCode.MARSHALLING_ERROR, None)


def test_several_reads_are_one_reply_which_has_a_bound() -> None:
    """A part of a request has a few bytes; its result may have a megabyte."""
    it, client = tree(), Client()
    reads = it.store.reads
    it.set("/ab", bytes(1_000))
    for part in ((Op.GET_DATA, ("/ab", False)), (Op.GET_CHILDREN, ("/a", False)), (Op.GET_DATA, ("/gone", False))):
        reads.multi_read_bytes_max = None
        assert reads.read(Op.MULTI_READ, (part,) * 1_000, client)[0] == 0
        reads.multi_read_bytes_max = 10_000
        assert reads.read(Op.MULTI_READ, (part,) * 5, client)[0] == 0
        assert reads.read(Op.MULTI_READ, (part,) * 1_000, client) is TOO_LARGE
        assert TOO_LARGE == (ErrorCode.MARSHALLING_ERROR, None)


def test_who_am_i_returns_the_identities() -> None:
    client = Client(identities=(("ip", "10.0.0.1"), ("digest", "joe:hash"), ("sasl", "joe@REALM")))
    told = leader().store.reads.read(Op.WHO_AM_I, (), client)
    assert told == (0, [("ip", "10.0.0.1"), ("digest", "joe"), ("sasl", "joe@REALM")])


def test_unknown_read_operation() -> None:
    for op in (Op.CREATE, Op.SYNC, 77):
        assert leader().store.reads.read(op, (), Client())[0] == ErrorCode.UNIMPLEMENTED


def test_nul_in_a_path() -> None:
    assert leader().store.reads.exists(Client(), "/a\0", True) == (ErrorCode.BAD_ARGUMENTS, None)


def test_the_configuration_is_a_node() -> None:
    it, client = leader(), Client()
    it.store.reads.get_data(client, "/zookeeper/config", True)
    it.store.configure(it.zxid, b"server.1=...")
    assert client.heard == [(3, "/zookeeper/config")]
    node = it.store.tree.nodes["/zookeeper/config"]
    assert (node[0], stat_of(node).mzxid, stat_of(node).version) == (b"server.1=...", it.zxid, -1)
    assert it.error(Op.SET_DATA, "/zookeeper/config", b"", -1) == ErrorCode.NO_AUTH


def test_read_handler_refuses_reconfiguration() -> None:
    settings = StoreSettings(access=Access(supers=frozenset({"digest"})))
    assert leader(settings).error(Op.RECONFIG, None, None, None, -1) == ErrorCode.RECONFIG_DISABLED
    asked: list[object] = []
    it = Leader(settings, Store(settings, reconfigure=lambda fields, zxid: asked.append(fields)))
    it.open_sessions(ALICE)
    assert it.error(Op.RECONFIG, None, None, None, -1) == ErrorCode.NO_AUTH
    before = it.store.tree.nodes["/zookeeper/config"]
    assert (
        it.error(Op.RECONFIG, "server.4=a:1:2", None, None, -1, identities=(("super", ""), ("digest", "root:x"))) == 0
    )
    assert asked[-1] == ("server.4=a:1:2", None, None, -1)
    assert it.store.tree.nodes["/zookeeper/config"] is before, "that is the consensus' own business"


def test_a_membership_has_a_place_in_the_history() -> None:
    it = leader()
    zxid = it.store.zxid
    it.store.configure(zxid + 5, b"server.1=...")
    assert it.store.zxid == zxid, "in force, but what is before it has not been applied yet"
    it.store.configure(zxid + 5, b"server.1=...", applied=True)
    assert it.store.zxid == zxid + 5


def test_a_node_that_is_the_same_object_has_not_changed() -> None:
    """So values derived from it may be kept."""
    it, client = tree(), Client()
    node = it.store.reads.get_data(client, "/a", False)[1]
    it.set("/a/b", b"!")
    it.set("/ab", b"!")
    assert it.store.reads.get_data(client, "/a", False)[1] is node
    for change in (lambda: it.create("/a/new"), lambda: it.set("/a", b"!"), lambda: it.delete("/a/new"),
                   lambda: it.ask(Op.SET_ACL, "/a", OPEN, -1)):  # fmt: skip
        change()
        now = it.store.reads.get_data(client, "/a", False)[1]
        assert now is not node
        node = now
