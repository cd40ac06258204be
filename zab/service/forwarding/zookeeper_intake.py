"""The intake of a leader whose learners speak the protocol of ZooKeeper.

It differs from `LeaderIntake` in three ways. A request names its session, and its transaction is the only reply, also
if it fails. The history does not tell at which server a session is: this leader remembers it, from requests and
revalidations, and refuses the requests of other servers. Learners report the use of sessions with their answers to
pings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from zab.core.ensemble import Ensemble
from zab.core.errors import ConfigError, LocalProtocolError, NewConfigNoQuorum, ReconfigInProgress
from zab.core.messages import State
from zab.core.node import Node
from zab.core.zxid import Zxid
from zab.service.forwarding.leadership import LearnerLink
from zab.service.forwarding.proposal_queue import ForwardedBatch, ProposalQueue, SealedChange
from zab.service.forwarding.zookeeper_forwarder import ZookeeperForwarder
from zab.service.tree_digests import PredictedTree
from zab.store import transactions
from zab.store.acl import encode_identities
from zab.store.error_codes import ErrorCode
from zab.store.operations import Op
from zab.store.request_format import FOREIGN, HEAD, INTERNAL, pack_body, pack_request
from zab.wire.apache.packet_bodies import LearnerRequest, RevalidateReply, RevalidateRequest, SessionTouches
from zab.wire.apache.proposals import ProposalEncoder, canonical
from zab.wire.relay_messages import TAG_BYTES

OnTouches: TypeAlias = Callable[[Iterable[tuple[int, int]]], None]
"""Called with sessions and their timeouts in ms."""


def ignore_touches(sessions: Iterable[tuple[int, int]]) -> None:
    """Do nothing: the machine has no sessions."""


class ZookeeperSeal:
    """Transactions as servers of ZooKeeper know them (`zab.wire.apache.proposals`), with the digests that they need."""

    def __init__(self, encoder: ProposalEncoder, tree: PredictedTree | None) -> None:
        """`encoder` receives the digests of `tree`. Without a tree it receives none."""
        self._encoder = encoder
        self._tree = tree

    def payload(self, zxid: Zxid, txn: bytes) -> bytes | SealedChange:
        if self._tree is not None:
            self._encoder.expect(zxid, self._tree.predicted_digest(zxid))
        try:
            payload = canonical(zxid, txn)
        except LocalProtocolError:
            return _error_like(zxid, txn, ErrorCode.UNIMPLEMENTED)
        if txn[0] == transactions.RECONFIG:
            _, text, _ = transactions.decode(txn).body
            return SealedChange(Ensemble.parse(text.decode()), payload)
        return payload

    def refused(self, zxid: Zxid, change: SealedChange, error: ConfigError) -> bytes:
        code = next((code for kind, code in _REFUSALS.items() if isinstance(error, kind)), ErrorCode.BAD_ARGUMENTS)
        return _error_like(zxid, change.attached[TAG_BYTES:], code)

    def failed(self, request: bytes, now_ms: int) -> bytes:
        _, session, cxid, *_ = HEAD.unpack_from(request)
        return transactions.error(session, cxid, now_ms, ErrorCode.SYSTEM_ERROR)


def _error_like(zxid: Zxid, txn: bytes, code: ErrorCode) -> bytes:
    """Return the payload of an error in place of a transaction."""
    _, session, cxid, time = transactions.HEAD.unpack_from(txn)
    return canonical(zxid, transactions.error(session, cxid, time, code))


_REFUSALS: Final[Mapping[type[ConfigError], ErrorCode]] = {
    ReconfigInProgress: ErrorCode.RECONFIG_IN_PROGRESS,
    NewConfigNoQuorum: ErrorCode.NEW_CONFIG_NO_QUORUM,
}


class ZookeeperIntake:
    def __init__(self, node: Node, queue: ProposalQueue, path: ZookeeperForwarder, on_touches: OnTouches) -> None:
        self.handlers: Mapping[type[Any], Callable[[LearnerLink, Any], None]] = {
            LearnerRequest: self._on_request,
            RevalidateRequest: self._on_revalidate,
            SessionTouches: self._on_touched,
        }
        """type of a message of a learner -> its handler"""
        self._node = node
        self._queue = queue
        self._path = path
        self._on_touches = on_touches

    @property
    def _leads(self) -> bool:
        return self._node.state is State.LEADING

    def _on_request(self, link: LearnerLink, message: LearnerRequest) -> None:
        if not self._leads:
            return
        batch = ForwardedBatch(self._node.epoch, link, b"", 0, (packed(link, message),))
        if not self._queue.put(batch):
            link.cut("more than twice Limits.submits_max requests of the peer would be queued")

    def _on_revalidate(self, link: LearnerLink, message: RevalidateRequest) -> None:
        session, path, node = message.session, self._path, self._node
        valid = self._leads and path.owners.attach_session(session, link.peer, node.epoch)
        if valid:
            self._on_touches([(session, message.timeout_ms)])
        link.send(path.encode(link, RevalidateReply(session, valid)))

    def _on_touched(self, link: LearnerLink, message: SessionTouches) -> None:
        if self._leads:
            self._on_touches(message.sessions)


def packed(link: LearnerLink, request: LearnerRequest) -> bytes:
    """Return a learner's request in the format of our store."""
    body, flags = request.body, FOREIGN
    if request.op == Op.CREATE_SESSION:
        body, flags = pack_body((int.from_bytes(body[:4], "big", signed=True),)), INTERNAL
    identities = encode_identities(request.identities)
    return pack_request(request.op, body, request.session, request.cxid, link.peer, identities, flags)
