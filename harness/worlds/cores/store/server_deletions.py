"""Checks of deletions by servers: no container or TTL node is deleted early, and none stays for ever.

The checks use the committed history and the nodes, but not the tables of containers and TTL nodes of the store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import define

from harness.checkers.oracle_state import OracleState, Violation
from harness.checkers.store.model import parent_of
from harness.worlds.cores.store.checks import committed
from zab.core.zxid import Zxid, show
from zab.store import transactions
from zab.store.operations import Op
from zab.store.znode import CHILDREN, CONTAINER, CVERSION, MTIME, OWNER, Znode, is_session, ttl_of
from zab.wire.relay_messages import TAG_BYTES

TIMELY = "containers and TTL nodes are deleted only when due"


@define
class _Made:
    owner: int
    since_ms: int
    """The time of its last write, by the clock of the leader."""
    used: bool = False
    """True if the node has had a child."""


def timely(ghost: OracleState) -> None:
    """Check every deletion by the time in its transaction.

    A request for a deletion may come from an outdated scan of the leader. Only the deletion itself can be wrong.
    """
    nodes: dict[str, _Made] = {}
    passed: dict[str, None] = {}
    for zxid, txn in _transactions(ghost):
        match txn.op:
            case Op.CREATE | Op.CREATE2 | Op.CREATE_CONTAINER | Op.CREATE_TTL:
                path, _, _, owner, _ = txn.body
                nodes[path] = _Made(owner, txn.time)
                above = nodes.get(parent_of(path))
                if above is not None:
                    above.used = True
            case Op.SET_DATA:
                made = nodes.get(txn.body[0])
                if made is not None:
                    made.since_ms = txn.time
            case Op.DELETE | Op.DELETE_CONTAINER:  # ephemeral nodes are deleted with their session, not by these
                for path in txn.body:
                    made = nodes.pop(path, None)
                    if made is not None and txn.op == Op.DELETE_CONTAINER:
                        _judge(zxid, path, made, txn.time, again=path in passed)
                    if made is not None and made.owner and not is_session(made.owner):
                        passed[path] = None
            case _:
                pass


def _judge(zxid: Zxid, path: str, made: _Made, now_ms: int, *, again: bool) -> None:
    ttl = ttl_of(made.owner)
    if ttl is not None and now_ms - made.since_ms <= ttl:
        what = f"TTL node {path} is deleted at {show(zxid)}, {now_ms - made.since_ms} ms after its last write"
        raise Violation(TIMELY, f"{what}, but its TTL is {ttl} ms")
    if made.owner == CONTAINER and not made.used and not again:
        raise Violation(TIMELY, f"container {path} is deleted at {show(zxid)}, but it never had a child")


def _transactions(ghost: OracleState) -> Iterator[tuple[Zxid, transactions.Transaction]]:
    for batch in committed(ghost):
        if batch.config:
            continue
        (payload,) = batch.payloads()
        txn = transactions.decode(payload[TAG_BYTES:])
        for part in txn.body if txn.op == Op.MULTI else (txn,):
            yield batch.first, part


def left_over(nodes: Mapping[str, Znode], wall_ms: int) -> str | None:
    """Return the description of a node that should have been deleted by now; None if there is none."""
    for path, node in nodes.items():
        if node[CHILDREN]:
            continue
        ttl = ttl_of(node[OWNER])
        if node[OWNER] == CONTAINER and node[CVERSION]:
            return f"container {path} still exists, although its last child was deleted"
        if ttl is not None and wall_ms - node[MTIME] > ttl:
            return (
                f"TTL node {path} still exists {wall_ms - node[MTIME]} ms after its last write, but its TTL is {ttl} ms"
            )
    return None
