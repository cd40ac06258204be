"""Deletions by the servers themselves: containers and TTL nodes, in small histories of transactions."""

from __future__ import annotations

import pytest

from harness.checkers.oracle_state import OracleState, Violation
from harness.members import member
from harness.worlds.cores.store.server_deletions import left_over, timely
from zab.core.batch import pack
from zab.core.ensemble import Ensemble
from zab.core.zxid import NOTHING, ServerId, Zxid, make
from zab.store import transactions
from zab.store.acl import OPEN
from zab.store.operations import Op
from zab.store.znode import CONTAINER, Znode, ttl_owner
from zab.wire.relay_messages import TAG_BYTES

ME = 0x100000001


def create(time: int, path: str, owner: int = 0) -> bytes:
    return transactions.create(Op.CREATE, ME, 0, time, path, b"", OPEN, owner, 1)


def write(time: int, path: str) -> bytes:
    return transactions.set_data(ME, 0, time, path, b"", 1)


def delete(time: int, path: str, *, reaped: bool = True) -> bytes:
    kind = transactions.DELETE_CONTAINER if reaped else transactions.DELETE
    return transactions.delete(0 if reaped else ME, 0, time, path, kind)


def judged(*made: bytes) -> str:
    ghost = OracleState(Ensemble((member(ServerId(1)),)), 1)
    behind = NOTHING
    for counter, txn in enumerate(made, start=1):
        batch = pack(make(1, counter), [bytes(TAG_BYTES) + txn])
        ghost.log(batch, behind)
        ghost.commit([batch.first])
        behind = batch.last
    try:
        timely(ghost)
    except Violation as violation:
        return violation.what
    return ""


def test_ttl_node_expires_after_its_last_write() -> None:
    made = create(1_000, "/t", ttl_owner(250))
    assert judged(made, delete(1_251, "/t")) == ""
    what = "TTL node /t is deleted at 1/2, 250 ms after its last write, but its TTL is 250 ms"
    assert judged(made, delete(1_250, "/t")) == what
    assert judged(made, write(1_100, "/t"), delete(1_300, "/t")) != ""
    assert judged(made, write(1_100, "/t"), delete(1_351, "/t")) == ""
    assert judged(made, delete(1_100, "/t", reaped=False)) == "", "a client may delete it at any time"


def test_container_may_be_deleted_after_its_last_child() -> None:
    made = create(0, "/c", CONTAINER)
    child = create(1, "/c/x"), delete(2, "/c/x", reaped=False)
    assert judged(made, *child, delete(3, "/c")) == ""
    assert judged(made, delete(3, "/c")) == "container /c is deleted at 1/2, but it never had a child"


def test_server_may_delete_a_recreated_container() -> None:
    made = create(0, "/c", CONTAINER)
    child = create(1, "/c/x"), delete(2, "/c/x", reaped=False)
    assert judged(made, *child, delete(3, "/c", reaped=False), made, delete(4, "/c")) == ""
    assert judged(create(0, "/c"), delete(3, "/c", reaped=False), made, delete(4, "/c")) != "", (
        "the former node was not a container"
    )


def test_container_children_in_a_multi_and_of_a_closed_session_count() -> None:
    made = transactions.multi(ME, 0, 5, [create(5, "/c", CONTAINER), create(5, "/c/x")])
    assert judged(made, transactions.close_session(ME, 0, 6, ("/c/x",)), delete(7, "/c")) == ""


@pytest.mark.parametrize(
    ("owner", "ever", "now", "wall_ms", "left"),
    [
        (CONTAINER, 1, 0, 0, True),
        (CONTAINER, 1, 1, 0, False),
        (CONTAINER, 0, 0, 9_999, False),
        (ttl_owner(250), 0, 0, 1_251, True),
        (ttl_owner(250), 0, 0, 1_250, False),
        (ttl_owner(250), 1, 1, 1_251, False),
        (0, 1, 0, 9_999, False),
        (ME, 0, 0, 9_999, False),
    ],
)
def test_left_over_finds_nodes_that_should_be_deleted(
    owner: int, ever: int, now: int, wall_ms: int, left: bool
) -> None:
    zxid = Zxid(1)
    node: Znode = (b"", OPEN, zxid, zxid, 0, 1_000, 0, ever, 0, owner, zxid, now)
    assert (left_over({"/n": node}, wall_ms) is not None) == left
