"""Turn the store's results into reply frames.

The store returns nodes; clients receive the nodes' stats. The reply to a write carries the zxid of the write. The reply
to a read carries the last zxid that the server has applied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from zab.store.apply import Result, SubResult
from zab.store.operations import Op
from zab.store.read_handler import ReadResult
from zab.store.znode import Znode, stat_fields
from zab.wire.client import multi_codec
from zab.wire.client.replies import data_reply, encode_reply, error_reply, node_reply, path_reply

# Plain integers: looking up a member of an enum costs as much as packing a header.
_GET_DATA: Final = int(Op.GET_DATA)
_EXISTS: Final = int(Op.EXISTS)
_CREATE: Final = int(Op.CREATE)
_SET_DATA: Final = int(Op.SET_DATA)
_ERROR: Final = int(Op.ERROR)
_MULTI: Final = int(Op.MULTI)


# -- reads ---------------------------------------------------------------------------------------------


def _read_part(part: tuple[int, int, Any]) -> multi_codec.Result:
    op, error, value = part
    if error:
        return Op.ERROR, error
    return (op, (value[0], stat_fields(value))) if op == Op.GET_DATA else (op, value[0])


_OF_READ: Final[Mapping[int, Callable[[Any], Any]]] = {
    int(Op.GET_CHILDREN): lambda value: value[0],
    int(Op.GET_CHILDREN2): lambda value: (value[0], stat_fields(value[1])),
    int(Op.GET_ACL): lambda value: (value[0], stat_fields(value[1])),
    int(Op.MULTI_READ): lambda value: map(_read_part, value),
    int(Op.ADD_WATCH): lambda value: 0,
}
"""Conversions of results from the store's form to the one that `encode_reply` takes, where the two differ."""


def read_reply(op: int, xid: int, zxid: int, answer: ReadResult) -> bytes:
    error, value = answer
    if error:
        return error_reply(xid, zxid, error)
    if op == _GET_DATA:
        return data_reply(xid, zxid, value[0], stat_fields(value))
    if op == _EXISTS:
        return node_reply(xid, zxid, value)
    turn = _OF_READ.get(op)
    return encode_reply(op, xid, zxid, value if turn is None else turn(value))


# -- writes --------------------------------------------------------------------------------------------


def _node_of(result: Result | SubResult) -> Znode:
    node = result[3]
    assert node is not None, "a successful create has a node"
    return node


def _write_part(part: SubResult) -> multi_codec.Result:
    op, error, path, node = part
    if error or op == _ERROR:
        return _ERROR, error
    if op == _SET_DATA:
        assert node is not None, "a successful set has a node"
        return op, stat_fields(node)
    if op == _CREATE:
        return op, path
    return op, None if node is None else (path, stat_fields(node))


_WITH_STAT: Final = frozenset({int(Op.SET_DATA), int(Op.SET_ACL)})
_WITH_PATH_AND_STAT: Final = frozenset({int(Op.CREATE2), int(Op.CREATE_CONTAINER), int(Op.CREATE_TTL)})


def write_reply(op: int, xid: int, result: Result) -> bytes:
    zxid, error, path, node, parts = result
    if error:
        return error_reply(xid, zxid, error)
    if op in _WITH_STAT:
        assert node is not None, "a successful set has a node"
        return node_reply(xid, zxid, node)
    if op == _CREATE:
        assert path is not None, "a created node has a path"
        return path_reply(xid, zxid, path)
    if op in _WITH_PATH_AND_STAT:
        return encode_reply(op, xid, zxid, (path, stat_fields(_node_of(result))))
    if op == _MULTI:
        return encode_reply(op, xid, zxid, map(_write_part, parts))
    return error_reply(xid, zxid, 0)
