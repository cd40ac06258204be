"""A leader of ours on a link to a learner of Apache ZooKeeper: its packets become our messages, and the reverse.

The counterpart of `link_to_leader`, where the differences of the protocols are listed. This side adds:

- **Nothing before NEWLEADER stays open.** A learner of ZooKeeper makes durable, before it acknowledges NEWLEADER, only
  what a COMMIT follows. The core counts its acknowledgement for everything before NEWLEADER. So a COMMIT follows each
  PROPOSAL there. With `Settings.open_before_new_leader` off, as it must be here, these proposals are decided, except
  in the initial history of a leader that is not established yet. This exception is sound as long as the learner does
  not serve: UPTODATE is held back until all of it is committed, also the common zxid. ZooKeeper's leader sends COMMITs
  there, too. Decision 19 says what follows if the leader is lost before.
- **One op.** A learner of ZooKeeper expects exactly one of DIFF, TRUNC and SNAP. The core may send TRUNC before a
  snapshot, so that the learner can veto; that one is left out. So is the second DIFF, which only brings a digest.
- **Commits one by one**, each exactly once and in the order of the proposals. `Commit` covers all up to its zxid. None
  is sent between NEWLEADER and UPTODATE: there a learner of ZooKeeper activates a change of the membership only if it
  is the first open proposal.
- **Pings keep their numbers.** A learner repeats the zxid of a PING and does nothing else with it. So the number of the
  ping travels in its place, and pongs prove leadership as among ourselves: barriers are as strong as ours.
- **The first ACK** adopts the epoch. A second one with the same zxid answers UPTODATE and is dropped.
- **A snapshot** is written in ZooKeeper's format: the owner of the link passes the bytes of
  `snapshot_stream.encode_state` as chunks, not the chunks of our own snapshot, because the ACLs come first.
- **An epoch in ACKEPOCH** of -1 says that the promise does not count, and not which epoch the learner has. It is taken
  to be the epoch of its last transaction. The digest of its history is None: not known.
- **Requests** arrive with session and number. A leader must answer each one with a transaction, of type error if the
  request fails: a refusal, a catch-up point or a reply about a membership has no equal.
- **Replies in order.** A learner expects the commits of its own requests and the replies to its syncs in the order in
  which it sent them (`LinkToLearner._due`). A barrier of ours waits for pongs, and may end earlier or later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from attrs import evolve, frozen

from zab.core.batch import Batch
from zab.core.errors import LocalProtocolError, WireError
from zab.core.messages import (
    RESUMES,
    Ack,
    AckEpoch,
    AckNewLeader,
    BarrierReply,
    BarrierRequest,
    Commit,
    CommitAndActivate,
    Diff,
    FollowerInfo,
    Inform,
    InformAndActivate,
    LeaderInfo,
    NewLeader,
    Ping,
    Pong,
    Propose,
    SnapBegin,
    SnapChunk,
    SnapEnd,
    Trunc,
    UpToDate,
)
from zab.core.zxid import NOTHING, UNKNOWN, Epoch, ServerId, Zxid, counter_of, epoch_of, make
from zab.store.operations import Op
from zab.wire.apache import packet_bodies as bodies
from zab.wire.apache.packet_bodies import (
    NO_ZXID,
    NOT_COUNTED,
    LearnerRequest,
    RevalidateReply,
    RevalidateRequest,
    SessionTouches,
)
from zab.wire.apache.proposals import ProposalEncoder
from zab.wire.apache.quorum_packets import PACKET_BYTES_MAX, PacketReader, PacketType, QuorumPacket, encode_packet
from zab.wire.apache.snapshot_stream import SIGNATURE
from zab.wire.disk_txn import HEAD

SYNC_ZXID: Final = 0
ASKED_MAX: Final = 1 << 17
"""The largest number of requests without a reply, far above what a leader queues. Above it the link ends."""

FromLearner: TypeAlias = (
    FollowerInfo | AckEpoch | AckNewLeader | Ack | Pong | BarrierRequest | LearnerRequest | SessionTouches
    | RevalidateRequest
)  # fmt: skip


@frozen
class _OpenProposal:
    """A transaction that is not committed at the learner: session and number of its request, and what commits it."""

    zxid: Zxid
    request: tuple[int, int]
    commit: bytes


def _request_of(txn: bytes) -> tuple[int, int]:
    session, cxid, *_ = HEAD.unpack_from(txn)
    return session, cxid


class LinkToLearner:
    """The translator of one link. After an error the link cannot be used any more."""

    def __init__(self, packet_bytes_max: int = PACKET_BYTES_MAX, encoder: ProposalEncoder | None = None) -> None:
        """`encoder` is shared by all links of a leader, and has the digests; None: transactions have no digest."""
        self.sid: ServerId | None = None
        """The id of the learner; None until its first packet."""
        self._encode_batch = (encoder or ProposalEncoder()).encode
        self._reader = PacketReader(packet_bytes_max)
        self._has_promised = False
        """True once ACKEPOCH has arrived."""
        self._epoch: Epoch | None = None
        """The epoch in NEWLEADER; None until it is sent."""
        self._adopted = False
        """True once the learner has acknowledged NEWLEADER."""
        self._op_sent = False
        """True once DIFF, TRUNC or SNAP is sent."""
        self._cut: Zxid | None = None
        """A TRUNC that is not sent yet, because a snapshot may follow; None without one."""
        self._history_end = NOTHING
        """The end of the learner's history at NEWLEADER: the last proposal before it, or the common zxid."""
        self._committed = NOTHING
        """Everything up to here is committed. Only grows."""
        self._open: deque[_OpenProposal] = deque()
        """The proposals after NEWLEADER for which no COMMIT is sent yet, in order. Of an observer: its INFORMs."""
        self._holds_up_to_date = False
        """True while UPTODATE waits for `_history_end` to be committed."""
        self._up_to_date = False
        """True once UPTODATE is sent."""
        self._barrier = 0
        """The number of the last sync of the learner's clients."""
        self._asked: deque[tuple[int, int]] = deque()
        """Session and number of each request of the learner whose commit is not sent yet, in order."""
        self._answered = 0
        """The number of requests of the learner whose commit was sent."""
        self._syncs: deque[int] = deque()
        """For each sync whose reply is not sent yet, in order: the number of requests before it."""
        self._syncs_done: deque[Zxid] = deque()
        """The zxid that each sync must reach, of those that the leader has answered and whose reply is not sent yet."""

    @property
    def held_bytes(self) -> int:
        return self._reader.held_bytes

    # -- from the learner --------------------------------------------------------------------------

    def feed(self, data: bytes) -> list[FromLearner]:
        """Return the messages in these bytes. Raise `WireError` if the learner does not keep to the protocol."""
        self._reader.feed(data)
        found: list[FromLearner] = []
        acked: Zxid | None = None
        while (packet := self._reader.next()) is not None:
            handler = self._HANDLERS.get(packet.type)
            if handler is None:
                raise WireError(f"a learner does not send {packet.type.name}")
            if (self.sid is None) != (packet.type in _INFOS):
                raise WireError(f"{packet.type.name} must be the first packet of a learner, and no other")
            for message in handler(self, packet):
                if isinstance(message, Ack):
                    acked = message.zxid  # one for all that arrive together
                else:
                    found.append(message)
        if acked is not None:
            found.append(Ack(acked))
        return found

    def _on_info(self, packet: QuorumPacket) -> list[FromLearner]:
        info, epoch = bodies.decode_info(packet), bodies.epoch_in(packet)
        self.sid = info.sid
        return [FollowerInfo(epoch, info.config_version, packet.type is PacketType.OBSERVER_INFO)]

    def _on_ack_epoch(self, packet: QuorumPacket) -> list[FromLearner]:
        if self._has_promised:
            raise WireError("a second ACKEPOCH on one link")
        self._has_promised = True
        last, epoch = bodies.position_of(packet), bodies.decode_epoch(packet)
        counts = epoch != NOT_COUNTED
        known = Epoch(epoch) if counts else epoch_of(last) if last != UNKNOWN else Epoch(0)
        return [AckEpoch(known, last, None, counts)]

    def _on_ack(self, packet: QuorumPacket) -> list[FromLearner]:
        if self._epoch is None:
            raise WireError("ACK before NEWLEADER")
        if not self._adopted:
            if packet.zxid != make(self._epoch, 0):
                raise WireError(f"ACK of {packet.zxid:#x} before that of NEWLEADER")
            self._adopted = True
            return [AckNewLeader(self._epoch)]
        zxid = bodies.known_position_of(packet)
        return [Ack(zxid)] if counter_of(zxid) else []

    def _on_ping(self, packet: QuorumPacket) -> list[FromLearner]:
        if packet.zxid < 0:
            raise WireError(f"PING with the number {packet.zxid}")
        touches = bodies.decode_touches(packet)
        pong = Pong(packet.zxid)
        return [touches, pong] if touches.sessions else [pong]

    def _on_request(self, packet: QuorumPacket) -> list[FromLearner]:
        request = bodies.decode_learner_request(packet)
        if len(self._asked) + len(self._syncs) >= ASKED_MAX:
            raise WireError(f"{ASKED_MAX} requests of one learner without a reply")
        if request.op != Op.SYNC:
            self._asked.append((request.session, request.cxid))
            return [request]
        self._barrier += 1
        self._syncs.append(self._answered + len(self._asked))
        return [BarrierRequest(self._barrier)]

    def _on_revalidate(self, packet: QuorumPacket) -> list[FromLearner]:
        return [bodies.decode_revalidate_request(packet)]

    _HANDLERS: Final[dict[PacketType, Callable[[Any, QuorumPacket], list[FromLearner]]]] = {
        PacketType.FOLLOWER_INFO: _on_info,
        PacketType.OBSERVER_INFO: _on_info,
        PacketType.ACK_EPOCH: _on_ack_epoch,
        PacketType.ACK: _on_ack,
        PacketType.PING: _on_ping,
        PacketType.REQUEST: _on_request,
        PacketType.REVALIDATE: _on_revalidate,
    }

    # -- to the learner ----------------------------------------------------------------------------

    def encode(self, message: object) -> bytes:
        """Return the packets of a message: none if the learner needs none, or none yet.

        Raise `LocalProtocolError` for a message or a transaction without an equal in this protocol.
        """
        match message:
            case Propose():
                return self._proposals(message.batch)
            case Commit():
                return self._commit(message.zxid)
            case Ping():
                ping = encode_packet(QuorumPacket(PacketType.PING, message.number))
                return (self._commit(message.committed) if self._epoch is not None else b"") + ping
            case Inform():
                return self._informs(message.batch)
            case CommitAndActivate():
                return self._commit_and_activate(message)
            case InformAndActivate():
                return self._inform_and_activate(message)
            case LeaderInfo():
                packet = QuorumPacket(PacketType.LEADER_INFO, make(message.epoch, 0), bodies.encode_version())
                return encode_packet(packet)
            case Diff():
                return self._op(PacketType.DIFF, message.common)
            case Trunc():
                self._cut = message.common
                return b""
            case SnapBegin():
                self._cut = None
                return self._op(PacketType.SNAP, message.zxid)
            case SnapChunk():
                return message.data
            case SnapEnd():
                return SIGNATURE
            case NewLeader():
                return self._new_leader(message)
            case UpToDate():
                self._holds_up_to_date = True
                return self._commit(message.committed)
            case BarrierReply():
                if message == RESUMES:
                    return b""
                self._syncs_done.append(message.zxid)
                return self._due()
            case RevalidateReply():
                return encode_packet(bodies.revalidation_packet(message))
            case _:
                raise LocalProtocolError(f"{type(message).__name__} has no equal in ZooKeeper's protocol")

    def _op(self, kind: PacketType, zxid: Zxid) -> bytes:
        if self._op_sent or self._cut is not None:
            return self._pending_cut()
        self._op_sent = True
        self._history_end = zxid
        return encode_packet(QuorumPacket(kind, zxid))

    def _pending_cut(self) -> bytes:
        cut, self._cut = self._cut, None
        if cut is None:
            return b""
        self._op_sent = True
        return encode_packet(QuorumPacket(PacketType.TRUNC, cut))

    def _proposals(self, batch: Batch) -> bytes:
        packets = [self._pending_cut()]
        history = self._epoch is None
        for zxid, data in self._encode_batch(batch):
            packets.append(encode_packet(QuorumPacket(PacketType.PROPOSAL, zxid, data)))
            if history:
                packets.append(encode_packet(QuorumPacket(PacketType.COMMIT, zxid)))
                self._history_end = zxid
            else:
                commit = encode_packet(QuorumPacket(PacketType.COMMIT, zxid))
                self._open.append(_OpenProposal(zxid, _request_of(data), commit))
        return b"".join(packets)

    def _new_leader(self, message: NewLeader) -> bytes:
        cut = self._pending_cut()
        self._epoch = message.epoch
        packet = QuorumPacket(PacketType.NEW_LEADER, make(message.epoch, 0), message.ensemble.text().encode())
        return cut + encode_packet(packet)

    def _commit(self, zxid: Zxid) -> bytes:
        """Return UPTODATE if it has waited for `zxid`, then what is due for the open proposals up to it."""
        self._committed = max(self._committed, zxid)
        packets = b""
        if self._holds_up_to_date and self._committed >= self._history_end:
            self._holds_up_to_date, self._up_to_date = False, True
            packets = encode_packet(QuorumPacket(PacketType.UP_TO_DATE, NO_ZXID))
        return packets + self._due()

    def _due(self) -> bytes:
        """Return the commits and the replies to syncs that may be sent now.

        A learner of ZooKeeper (`CommitProcessor`) expects commits of its own requests and replies to syncs in the order
        in which it sent them. If one comes early, it processes this one as that of another server, and answers none of
        its later writes. So a sync waits for the commits of the requests before it, and those after it wait for it.
        """
        packets = []
        while True:
            sync_is_next = bool(self._syncs) and self._syncs[0] <= self._answered
            if sync_is_next and self._syncs_done and not self._is_open(self._syncs_done[0]):
                self._syncs.popleft()
                self._syncs_done.popleft()
                packets.append(encode_packet(QuorumPacket(PacketType.SYNC, SYNC_ZXID)))
                continue
            if not self._is_open(self._committed) or (self._epoch is not None and not self._up_to_date):
                break
            if self._asked and self._asked[0] == self._open[0].request:
                if sync_is_next:
                    break
                self._asked.popleft()
                self._answered += 1
            packets.append(self._open.popleft().commit)
        return b"".join(packets)

    def _is_open(self, until: Zxid) -> bool:
        """Return whether a proposal up to this zxid waits for its COMMIT."""
        return bool(self._open) and self._open[0].zxid <= until

    def _commit_and_activate(self, message: CommitAndActivate) -> bytes:
        for place, each in enumerate(self._open):  # it is not there if it was part of the history before NEWLEADER
            if each.zxid == message.zxid:
                data = bodies.encode_designated(message.designated)
                packet = encode_packet(QuorumPacket(PacketType.COMMIT_AND_ACTIVATE, message.zxid, data))
                self._open[place] = evolve(each, commit=packet)
        return self._commit(message.zxid)

    def _informs(self, batch: Batch) -> bytes:
        for zxid, data in self._encode_batch(batch):
            inform = encode_packet(QuorumPacket(PacketType.INFORM, zxid, data))
            self._open.append(_OpenProposal(zxid, _request_of(data), inform))
        return self._commit(batch.last)

    def _inform_and_activate(self, message: InformAndActivate) -> bytes:
        ((zxid, data),) = self._encode_batch(message.batch)
        body = bodies.encode_designated(message.designated) + data
        packet = encode_packet(QuorumPacket(PacketType.INFORM_AND_ACTIVATE, zxid, body))
        self._open.append(_OpenProposal(zxid, _request_of(data), packet))
        return self._commit(zxid)


_INFOS: Final = frozenset({PacketType.FOLLOWER_INFO, PacketType.OBSERVER_INFO})
