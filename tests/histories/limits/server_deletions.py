"""Handwritten examples of deletions by the servers: in time, too early, or missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from attrs import define, field, frozen

from harness.checkers.oracle_state import OracleState, Violation
from harness.members import member
from harness.worlds.cores.store.server_deletions import TIMELY, left_over, timely
from zab.core.batch import pack
from zab.core.ensemble import Ensemble
from zab.core.zxid import NOTHING, ServerId, Zxid, make
from zab.store import transactions
from zab.store.acl import OPEN
from zab.store.operations import Op
from zab.store.znode import CONTAINER, Znode, ttl_owner
from zab.wire.relay_messages import TAG_BYTES

ANN: Final = 0x100000001
ONE: Final = Ensemble((member(ServerId(1)),))
TWO: Final = Ensemble((member(ServerId(1)), member(ServerId(2))))


@define
class Scenario:
    """The committed transactions, and the nodes at the end."""

    now_ms: int = 1_000
    ghost: OracleState = field(factory=lambda: OracleState(ONE, 1))
    nodes: dict[str, Znode] = field(factory=dict)

    def commit(self, payload: bytes, *, config: bool = False) -> None:
        batch = pack(make(1, len(self.ghost.canon)), [payload], config=config)
        self.ghost.log(batch, self.ghost.canon[-1] if len(self.ghost.canon) > 1 else NOTHING)
        self.ghost.commit([batch.first])

    def does(self, *made: bytes) -> None:
        txn = made[0] if len(made) == 1 else transactions.multi(ANN, 0, self.now_ms, list(made))
        self.commit(bytes(TAG_BYTES) + txn)

    def create(self, path: str, owner: int = 0) -> bytes:
        return transactions.create(Op.CREATE, ANN, 0, self.now_ms, path, b"", OPEN, owner, 1)

    def write(self, path: str) -> bytes:
        return transactions.set_data(ANN, 0, self.now_ms, path, b"", 1)

    def delete(self, path: str) -> bytes:
        return transactions.delete(ANN, 0, self.now_ms, path)

    def reap(self, path: str) -> bytes:
        return transactions.delete(0, 0, self.now_ms, path, transactions.DELETE_CONTAINER)

    def close(self, *paths: str) -> bytes:
        return transactions.close_session(ANN, 0, self.now_ms, paths)

    def left(self, path: str, owner: int, *, ever: int = 0, now: int = 0) -> None:
        """Leave a node at the end, with these numbers of children ever and now."""
        zxid = Zxid(1)
        self.nodes[path] = (b"", OPEN, zxid, zxid, 0, 1_000, 0, ever, 0, owner, zxid, now)


Build: TypeAlias = Callable[[Scenario, bool], None]


@frozen
class Example:
    name: str
    build: Build
    invariant: str = TIMELY

    def violations(self, bad: bool) -> list[str]:
        """Return the violations as text, because no two are equal."""
        scenario = Scenario()
        self.build(scenario, bad)
        violations: list[str] = []
        try:
            timely(scenario.ghost)
        except Violation as violation:
            violations.append(str(violation))
        left = left_over(scenario.nodes, scenario.now_ms)
        return violations if left is None else [*violations, f"{TIMELY}: {left}"]


EXAMPLES: Final[dict[str, Example]] = {}


def example(build: Build) -> Build:
    EXAMPLES[build.__name__] = Example(build.__name__, build)
    return build


@example
def ttl_node_lives_for_its_ttl(t: Scenario, bad: bool) -> None:
    t.does(t.create("/t", ttl_owner(250)))
    t.now_ms += 250 if bad else 251
    t.does(t.reap("/t"))


@example
def ttl_counts_from_the_last_write(t: Scenario, bad: bool) -> None:
    t.does(t.create("/t", ttl_owner(250)))
    t.now_ms += 200
    t.does(t.write("/t"))
    t.does(t.write("/"))
    t.now_ms += 250 if bad else 251
    t.does(t.reap("/t"))


@example
def clients_may_delete_any_node(t: Scenario, bad: bool) -> None:
    t.does(t.create("/t", ttl_owner(250)), t.create("/c", CONTAINER))
    t.does(t.delete("/t"))
    t.does(t.reap("/c") if bad else t.delete("/c"))


@example
def container_becomes_empty(t: Scenario, bad: bool) -> None:
    t.does(t.create("/c", CONTAINER))
    t.does(t.create("/d" if bad else "/c/x"))
    t.does(t.delete("/d" if bad else "/c/x"))
    t.does(t.reap("/c"))


@example
def container_and_child_in_one_multi(t: Scenario, bad: bool) -> None:
    """A membership change in between is no transaction of the store."""
    t.does(t.create("/c", CONTAINER), *([] if bad else [t.create("/c/x", ANN)]), t.create("/d"))
    t.commit(TWO.text().encode(), config=True)
    t.does(*([] if bad else [t.delete("/c/x")]), t.reap("/c"))


@example
def last_child_is_deleted_with_its_session(t: Scenario, bad: bool) -> None:
    t.does(t.create("/c", CONTAINER))
    if not bad:
        t.does(t.create("/c/x", ANN))
    t.does(t.close("/c/x"))
    t.does(t.reap("/c"))


@example
def server_may_have_checked_the_former_node(t: Scenario, bad: bool) -> None:
    """The former node was persistent or ephemeral, so no server can have checked it."""
    for owner in (0, ANN) if bad else (CONTAINER,):
        t.does(t.create("/c", owner))
        t.does(t.delete("/c"))
    t.does(t.create("/c", CONTAINER))
    t.does(t.reap("/c"))


@example
def session_had_it_before(t: Scenario, bad: bool) -> None:
    t.does(t.create("/c", ANN))
    t.does(t.close("/c"))
    if not bad:
        t.does(t.create("/c", ttl_owner(9)))
        t.does(t.delete("/c"))
    t.does(t.create("/c", CONTAINER))
    t.does(t.reap("/c"))


@example
def former_node_was_persistent(t: Scenario, bad: bool) -> None:
    t.does(t.create("/c"))
    t.does(t.delete("/c"))
    t.does(t.create("/c", CONTAINER))
    if not bad:
        t.does(t.create("/c/x"))
    t.does(t.reap("/c"))


@example
def node_is_deleted_already(t: Scenario, bad: bool) -> None:
    t.does(t.create("/t", ttl_owner(250)))
    t.now_ms += 300
    t.does(t.reap("/t"))
    t.does(t.reap("/t"))
    t.does(t.delete("/none"))
    if bad:
        t.does(t.create("/t", ttl_owner(250)))
        t.does(t.reap("/t"))


@example
def persistent_node_may_be_deleted_if_the_former_was_expired(t: Scenario, bad: bool) -> None:
    t.does(t.create("/x"))
    t.now_ms += 9
    t.does(t.reap("/x"))
    t.does(t.create("/x", CONTAINER if bad else 0))
    t.does(t.reap("/x"))


# -- missing deletions -----------------------------------------------------------------------------------


@example
def containers_that_are_left(t: Scenario, bad: bool) -> None:
    t.left("/new", CONTAINER)
    t.left("/for-ever", 0, ever=1)
    t.left("/mine", ANN, ever=1)
    t.left("/full", CONTAINER, ever=2, now=1)
    t.left("/left", CONTAINER, ever=2, now=not bad)


@example
def expired_ttl_nodes(t: Scenario, bad: bool) -> None:
    t.now_ms += 250
    t.left("/full", ttl_owner(9), ever=1, now=1)
    t.left("/for-ever", 0)
    t.left("/container", CONTAINER)
    t.left("/t", ttl_owner(249 if bad else 250))
