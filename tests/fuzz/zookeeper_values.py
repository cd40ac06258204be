"""Values of ZooKeeper's protocol and files, for searches: whatever may be sent, and a little more."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from zab.store.acl import OPEN
from zab.store.operations import Fields, Op
from zab.wire.client import multi_codec, reply_bodies, request_bodies, requests
from zab.wire.client.reply_bodies import ReplyBody
from zab.wire.client.request_bodies import RequestBody
from zab.wire.disk_snapshot import FileDigest, FileNode
from zab.wire.disk_txn import FileTxn

INTS: Final = st.integers(-(1 << 31), (1 << 31) - 1)
LONGS: Final = st.integers(-(1 << 63), (1 << 63) - 1)
BOOLS: Final = st.booleans()
TEXTS: Final = st.text(max_size=20)
PATHS: Final = st.one_of(st.sampled_from(["/", "/a", "/ü", ""]), TEXTS)
DATA: Final = st.one_of(st.none(), st.binary(max_size=40))
ACLS: Final = st.one_of(st.none(), st.just(OPEN), st.lists(st.tuples(INTS, TEXTS, TEXTS), max_size=3).map(tuple))
STATS: Final = st.tuples(LONGS, LONGS, LONGS, LONGS, INTS, INTS, INTS, LONGS, INTS, INTS, LONGS)
NAMES: Final = st.lists(PATHS, max_size=5)
NAME_TUPLES: Final = NAMES.map(tuple)

_CREATE: Final = st.tuples(PATHS, DATA, ACLS, INTS)
_PATH_AND_NUMBER: Final = st.tuples(PATHS, INTS)
_PATH_AND_FLAG: Final = st.tuples(PATHS, BOOLS)
_SET_DATA: Final = st.tuples(PATHS, DATA, INTS)
_NOTHING: Final[st.SearchStrategy[Fields]] = st.just(())

_OF_SHAPE: Final[list[tuple[RequestBody, st.SearchStrategy[Any]]]] = [
    (request_bodies.NO_BODY, _NOTHING),
    (request_bodies.PATH, st.tuples(PATHS)),
    (request_bodies.PATH_OR_NULL, st.tuples(st.one_of(st.none(), PATHS))),
    (request_bodies.PATH_AND_FLAG, _PATH_AND_FLAG),
    (request_bodies.PATH_AND_NUMBER, _PATH_AND_NUMBER),
    (request_bodies.SET_DATA, _SET_DATA),
    (request_bodies.CREATE, _CREATE),
    (request_bodies.CREATE_TTL, st.tuples(PATHS, DATA, ACLS, INTS, LONGS)),
    (request_bodies.SET_ACL, st.tuples(PATHS, ACLS, INTS)),
    (request_bodies.RECONFIG, st.tuples(*[st.one_of(st.none(), TEXTS)] * 3, LONGS)),
    (request_bodies.AUTH, st.tuples(INTS, TEXTS, DATA)),
    (request_bodies.TOKEN, st.tuples(DATA)),
    (request_bodies.WATCHES, st.tuples(LONGS, *[NAME_TUPLES] * 3)),
    (request_bodies.WATCHES2, st.tuples(LONGS, *[NAME_TUPLES] * 5)),
]


def of_shape(shape: RequestBody) -> st.SearchStrategy[Any]:
    """Fields of this shape."""
    for known, strategy in _OF_SHAPE:
        if known is shape:
            return strategy
    if shape is multi_codec.MULTI:
        return st.lists(_operations(dict(multi_codec.WRITES)), max_size=4).map(tuple)
    assert shape is multi_codec.MULTI_READ, "a shape that no test knows"
    return st.lists(_operations(dict(multi_codec.READS)), max_size=4).map(tuple)


def _operations(allowed: dict[int, RequestBody]) -> st.SearchStrategy[Any]:
    return st.one_of(*[st.tuples(st.just(opcode), of_shape(shape)) for opcode, shape in allowed.items()])


_OF_BODY: Final[list[tuple[ReplyBody, st.SearchStrategy[Any]]]] = [
    (reply_bodies.NO_BODY, st.none()),
    (reply_bodies.NUMBER, INTS),
    (reply_bodies.PATH, PATHS),
    (reply_bodies.TOKEN, DATA),
    (reply_bodies.STAT_ONLY, STATS),
    (reply_bodies.DATA, st.tuples(DATA, STATS)),
    (reply_bodies.CREATED, st.tuples(PATHS, STATS)),
    (reply_bodies.ACL, st.tuples(ACLS, STATS)),
    (reply_bodies.NAMES, NAMES),
    (reply_bodies.NAMES_AND_STAT, st.tuples(NAMES, STATS)),
    (reply_bodies.IDENTITIES, st.lists(st.tuples(TEXTS, TEXTS), max_size=3).map(tuple)),
]


def of_body(body: ReplyBody) -> st.SearchStrategy[Any]:
    """Return the fields of a reply of this kind."""
    for known, strategy in _OF_BODY:
        if known is body:
            return strategy
    assert body is multi_codec.RESULT_LIST, "a body that no test knows"
    results = [st.tuples(st.just(opcode), of_body(kind)) for opcode, kind in multi_codec.RESULTS.items()]
    return st.lists(st.one_of(st.tuples(st.just(Op.ERROR), INTS), *results), max_size=4)


REQUESTS: Final = st.one_of(
    *[st.tuples(INTS, st.just(opcode), of_shape(shape)) for opcode, shape in requests.SHAPES.items()]
)
"""xid, opcode, fields."""


# -- files ---------------------------------------------------------------------------------------------

_CREATED: Final = st.tuples(PATHS, DATA, ACLS, BOOLS, INTS)
_PARTS: Final[dict[int, st.SearchStrategy[Any]]] = {
    Op.ERROR: st.tuples(INTS),
    Op.CREATE: _CREATED,
    Op.CREATE2: _CREATED,
    Op.CREATE_CONTAINER: _CREATE,
    Op.CREATE_TTL: st.tuples(PATHS, DATA, ACLS, INTS, LONGS),
    Op.DELETE: st.tuples(PATHS),
    Op.DELETE_CONTAINER: st.tuples(PATHS),
    Op.SET_DATA: _SET_DATA,
    Op.CHECK: _PATH_AND_NUMBER,
}
TXN_FIELDS: Final[dict[int, st.SearchStrategy[Any]]] = {
    **{kind: fields for kind, fields in _PARTS.items() if kind != Op.CHECK},
    Op.CREATE_SESSION: st.tuples(INTS),
    Op.CLOSE_SESSION: st.tuples(st.one_of(st.none(), st.lists(st.text(min_size=1), max_size=3).map(tuple))),
    Op.RECONFIG: _SET_DATA,
    Op.SET_ACL: st.tuples(PATHS, ACLS, INTS),
    Op.MULTI: st.lists(
        st.one_of(*[st.tuples(st.just(kind), fields) for kind, fields in _PARTS.items()]), max_size=3
    ).map(tuple),
}
_DIGESTS: Final = st.one_of(st.none(), st.tuples(st.just(2), st.integers(0, (1 << 64) - 1)))


@st.composite
def txns(draw: st.DrawFn) -> FileTxn:
    kind = draw(st.sampled_from(sorted(TXN_FIELDS)))
    fields = draw(TXN_FIELDS[kind])
    return FileTxn(draw(LONGS), draw(INTS), draw(LONGS), draw(LONGS), kind, fields, draw(_DIGESTS))


TXNS: Final = txns()
_PERSISTED: Final = st.tuples(LONGS, LONGS, LONGS, LONGS, INTS, INTS, INTS, LONGS, LONGS)
NODES: Final = st.builds(FileNode, TEXTS.filter(lambda path: path not in ("", "/")), DATA, LONGS, _PERSISTED)
ROOTS: Final = st.builds(FileNode, st.just(""), DATA, LONGS, _PERSISTED)
SNAPSHOTS: Final = st.fixed_dictionaries({
    "sessions": st.dictionaries(LONGS, INTS, max_size=3),
    "acls": st.dictionaries(LONGS, ACLS.map(lambda acl: acl or ()), max_size=3),
    "nodes": st.builds(lambda root, others: [root, *others], ROOTS, st.lists(NODES, max_size=5)),
    "digest": st.one_of(st.none(), st.builds(FileDigest, LONGS, INTS, st.integers(0, (1 << 64) - 1))),
    "last_zxid": st.one_of(st.none(), LONGS),
})  # fmt: skip
