"""Checks of the replicated store that need no replies to clients, and the invariants of the simulated client port."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from harness.checkers.judge import Checker
from harness.checkers.oracle_state import OracleState, ServerState, Violation
from harness.checkers.recovery import MachineIsHistory
from harness.checkers.store.silence import SILENT
from harness.history import Event, SessionEvent
from harness.worlds.cores.store.machine import Machine
from zab.core.batch import Batch, digest_of, pack
from zab.core.ensemble import Ensemble
from zab.core.zxid import Zxid, show
from zab.service.config_node import text_of
from zab.store.operations import Op
from zab.store.paths import CONFIG
from zab.store.quota import BELOW
from zab.store.transactions import decode
from zab.store.znode import ACL, AVERSION, DATA, MZXID
from zab.wire.relay_messages import ORIGIN_BYTES, TAG_BYTES

ONCE = "each request exactly once"
ORDER = "requests of a member stay in order"
OWNERS = "no ephemeral node without its session"
LISTS = "all servers have the same ACLs"
COUNTS = "all servers have the same quota statistics"
TIME = SILENT
MOVED = "SESSION_MOVED is sent only to sessions that moved"
LEADS = "only the leader expires sessions"
ATTACHED = "connected clients are counted"
VALID = "a server without a leader disconnects its clients in time"
READERS = "a server with a leader serves no read-only client"
ADMITTED = "a connection is throttled only after others were admitted"
PINGED = "a ping is answered at once"
OPEN = "a server counts exactly its open requests"
RECONFIGURED = "the reply to a reconfig shows its effect"
CONFIGURED = "every server shows clients the membership in force"
TIMEOUT = "a client receives the timeout of its session"


def committed(ghost: OracleState, start: int = 1) -> Iterator[Batch]:
    """Yield the committed history from this place on, with one transaction in each batch."""
    for zxid in ghost.canon[start:]:
        config = ghost.governing[zxid] is not ghost.governing[ghost.parent[zxid]]
        yield pack(zxid, (ghost.payload[zxid],), config=config)


class StoreIsHistory(Checker):
    """The state of a server at a zxid is the one that the committed history up to there makes from an empty store."""

    invariant = MachineIsHistory.invariant

    def __init__(self, ghost: OracleState) -> None:
        super().__init__(ghost)
        self._machine = Machine()
        self._states = [self._machine.digest]
        self._digests = [0]

    def machine(self, server: ServerState, zxid: Zxid, state: int, digest: int | None) -> None:
        place = self.ghost.place.get(zxid)
        if place is None:
            self.fail(f"server {server.id} holds a state of {self.ghost.view(zxid)}, which was never committed")
            return
        for batch in committed(self.ghost, len(self._states)):
            self._machine.apply(batch)
            self._states.append(self._machine.digest)
            self._digests.append(digest_of(batch.payloads(), self._digests[-1]))
        if state != self._states[place]:
            self.fail(
                f"the state of server {server.id} at {show(zxid)} is not the one that the committed history makes"
            )
        if not self.ghost.is_digest(digest, self._digests[place]):
            shown = "none" if digest is None else f"{digest:08x}"
            self.fail(
                f"server {server.id} has the digest {shown} at {show(zxid)}, but the committed history has"
                f" {self._digests[place]:08x}"
            )


def exactly_once(ghost: OracleState) -> None:
    """Check that each request is in the history once, after the earlier requests of the same member."""
    last: dict[bytes, tuple[int, Zxid]] = {}
    for batch in committed(ghost):
        if batch.config:
            continue
        (payload,) = batch.payloads()
        origin, number = payload[:ORIGIN_BYTES], int.from_bytes(payload[ORIGIN_BYTES:TAG_BYTES], "big")
        before, zxid = last.get(origin, (0, Zxid(0)))
        if number <= before:
            invariant = ONCE if number == before else ORDER
            raise Violation(
                invariant,
                f"{show(batch.first)} is request {number} of a member, after its request {before} at {show(zxid)}",
            )
        last[origin] = number, batch.first


def moved(ghost: OracleState, replies: Sequence[tuple[int, int, int]]) -> None:
    """Check that SESSION_MOVED is returned only if the session was attached at another server before.

    Otherwise a client that has no other server would be refused for ever.
    """
    places: dict[int, list[tuple[int, int]]] = {}
    for batch in committed(ghost) if replies else ():
        if not batch.config:
            (payload,) = batch.payloads()
            txn = decode(payload[TAG_BYTES:])
            if txn.op in (Op.CREATE_SESSION, Op.ATTACH_SESSION):
                places.setdefault(txn.session, []).append((batch.first, txn.body[-1]))
    for session, server, zxid in replies:
        before = [where for at, where in places.get(session, ()) if at < zxid]
        if before and before[-1] == server:
            what = f"server {server} returns SESSION_MOVED at {show(Zxid(zxid))} to session {session:#x}"
            raise Violation(MOVED, f"{what}, which was last attached to this server")


def correct_timeouts(ghost: OracleState, events: Sequence[Event]) -> None:
    """Check that clients of sessions of the ensemble ping as often as the leader expects."""
    given: dict[int, int] = {}
    for batch in committed(ghost):
        if not batch.config:
            (payload,) = batch.payloads()
            txn = decode(payload[TAG_BYTES:])
            if txn.op == Op.CREATE_SESSION:
                given[txn.session] = txn.body[0]
    for event in events:
        if isinstance(event, SessionEvent) and event.state == "connected":
            right = given.get(event.session, event.timeout_ms)
            if event.timeout_ms != right:
                client = f"client {event.client}, session {event.session:#x}"
                what = f"received a timeout of {event.timeout_ms} ms at {event.at}, but the session has {right} ms"
                raise Violation(TIMEOUT, f"{client} {what}")


def owned(server: int, machine: Machine) -> None:
    for owner, paths in machine.store.tree.ephemerals.items():
        if owner not in machine.store.sessions.table:
            raise Violation(
                OWNERS, f"server {server} has the nodes {list(paths)} of session {owner:#x}, which has ended"
            )


def same_counts(machines: Sequence[tuple[int, Machine]]) -> None:
    """Check that servers at the same zxid agree on the counts of limited subtrees, which each server keeps itself."""
    for (one, mine), (other, theirs) in pairwise(
        (server, {path: node[DATA] for path, node in machine.store.tree.nodes.items() if path.startswith(BELOW)})
        for server, machine in machines
    ):
        for path in sorted(mine.keys() & theirs.keys()):
            if mine[path] != theirs[path]:
                what = f"server {one} counts {mine[path]!r} in {path}, but server {other} counts {theirs[path]!r}"
                raise Violation(COUNTS, what)


def same_lists(machines: Sequence[tuple[int, Machine]]) -> None:
    """Check that servers at the same zxid agree on ACLs. No digest covers them, and every snapshot must hold them."""
    known = {
        server: {path: (node[ACL], node[AVERSION]) for path, node in machine.store.tree.nodes.items()}
        for server, machine in machines
    }
    for (one, mine), (other, theirs) in pairwise(known.items()):
        for path in sorted(mine.keys() & theirs.keys()):
            if mine[path] != theirs[path]:
                what = f"server {one} has the ACL {mine[path]} for {path}, but server {other} has {theirs[path]}"
                raise Violation(LISTS, what)


def configured(server: int, machine: Machine, ensemble: Ensemble) -> None:
    """Check that the configuration node shows the membership in force, and its version as its zxid."""
    text, *_ = node = machine.store.tree.nodes[CONFIG]
    if text != text_of(ensemble) or node[MZXID] != ensemble.version:
        what = f"server {server} shows clients the membership {text!r} of {show(Zxid(node[MZXID]))}"
        raise Violation(CONFIGURED, f"{what}, but {ensemble.text()!r} of {show(ensemble.version)} is in force")
