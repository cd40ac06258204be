"""A learner of ours on a link to a leader of Apache ZooKeeper: its packets become our messages, and the reverse.

One type of packet means different things in different phases, and a batch of ours is many packets. So the translator
follows the phases of the link: discovery, the history, the adoption of the epoch, broadcast. It decides nothing; the
core's `Learner` does.

Where the protocols differ, and what follows:

- **The common zxid.** DIFF does not name it: the zxid in DIFF is where the leader's history ends. The common zxid is
  the end of this server's history, as it was in ACKEPOCH. No packet carries a digest of the history, so that of
  `Diff`, `Trunc` and `SnapBegin` is None: histories are compared by zxids alone.
- **Commits inside the history.** Before NEWLEADER a COMMIT follows each PROPOSAL that is part of the leader's initial
  history. That history is decided only when a quorum has adopted the epoch, and nothing tells these commits from
  others. So they are not passed on, but reach the core with `UpToDate`.
- **Acknowledgements.** `Ack` covers everything up to its zxid, ACK one proposal, so each becomes an ACK for every
  proposal that is not acknowledged yet. ACK of NEWLEADER covers only what was committed. The core acknowledges the
  proposals before NEWLEADER without a COMMIT at UPTODATE, together with later ones.
- **Pings** have no number. They are numbered here, and answered in order. The answer carries the sessions that clients
  have used (`touch`). None is answered before the acknowledgement of NEWLEADER, which the leader expects first.
- **Barriers.** SYNC proves no leadership: it only says that everything committed when the request arrived has been
  sent. A deposed leader answers, too. So a read after a barrier is no stronger than with ZooKeeper's own `sync`.
- **Promises.** `AckEpoch.counts` exists (-1 for the epoch), but a leader counts the adoption of every voter. A server
  that is `forgotten` must not join as a voter: `encode` refuses.
- **The version of the membership** is 0 for ever at servers without `reconfigEnabled`, and their leader refuses a
  learner that reports a newer one. But a leader of ours gives it a version. So such a leader is told 0.
- **Vetoes** and partly received snapshots cannot be reported. The core hangs up after a veto anyway.
- **Forwarded requests** name the session and the client's number instead of an origin and a number of ours, and a new
  link proves nothing about the requests on the former one: they may still be proposed. See `LearnerRequest`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final, TypeAlias

from attrs import define

from zab.core.batch import Batch, pack
from zab.core.errors import LocalProtocolError, WireError
from zab.core.messages import (
    ALIVE,
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
    SnapHeld,
    Trunc,
    UpToDate,
    Veto,
)
from zab.core.zxid import NOTHING, UNKNOWN, Epoch, ServerId, Zxid, make
from zab.store.operations import Op
from zab.wire.apache import packet_bodies as bodies
from zab.wire.apache.election_messages import decode_ensemble
from zab.wire.apache.packet_bodies import (
    NO_ZXID,
    LearnerInfo,
    LearnerRequest,
    RevalidateReply,
    RevalidateRequest,
    SessionTouches,
    TreeDigests,
)
from zab.wire.apache.proposals import batch_of, decode_proposal, payload_of
from zab.wire.apache.quorum_packets import PACKET_BYTES_MAX, PacketReader, PacketType, QuorumPacket, encode_packet
from zab.wire.apache.snapshot_stream import SnapshotStream
from zab.wire.disk_txn import FileTxn
from zab.wire.jute import text
from zab.wire.relay_messages import CatchUpPoint, CatchUpRequest

BATCH_ENTRIES_MAX: Final = 1000
BATCH_BYTES_MAX: Final = 1 << 20
PINGS_MAX: Final = 10_000
"""The largest number of pings that this server has not answered. Without an answer the leader ends the link earlier."""
TOUCHES_MAX: Final = 50_000
"""The largest number of sessions in one answer to a ping. The others follow with the next one."""
_SYNC_SESSION: Final = 0
_SYNC_BODY: Final = text("/")

FromLeader: TypeAlias = (
    LeaderInfo | Diff | Trunc | SnapBegin | SnapChunk | SnapEnd | NewLeader | UpToDate | Propose | Commit
    | CommitAndActivate | Inform | InformAndActivate | Ping | BarrierReply | CatchUpPoint | RevalidateReply
)  # fmt: skip


class Phase(IntEnum):
    """The phases of a link, in order. LEADERINFO, one of the ops, NEWLEADER and UPTODATE lead from one to the next."""

    DISCOVERY = 0
    PROMISED = 1
    HISTORY = 2
    ADOPTION = 3
    BROADCAST = 4


@define
class _Gathered:
    """Transactions with consecutive zxids that become one batch."""

    first: Zxid
    payloads: list[bytes]
    size: int
    inform: bool

    @property
    def next(self) -> Zxid:
        return Zxid(self.first + len(self.payloads))


class LinkToLeader:
    """The translator of one link. After an error the link cannot be used any more."""

    def __init__(
        self, me: ServerId, packet_bytes_max: int = PACKET_BYTES_MAX, *, reconfig_enabled: bool = True
    ) -> None:
        """`reconfig_enabled`: the setting of that name at the servers of ZooKeeper."""
        self.phase = Phase.DISCOVERY
        self.digests: deque[tuple[Zxid, int, int]] = deque(maxlen=BATCH_ENTRIES_MAX)
        """(zxid, version, digest): the digest that the leader's tree has after a transaction. The last ones; to be
        compared once the transaction is applied.
        """
        self._me = me
        self._reconfig_enabled = reconfig_enabled
        self._reader = PacketReader(packet_bytes_max)
        self._bytes_max = packet_bytes_max
        self._stream: SnapshotStream | None = None
        """The state that arrives now, or None."""
        self._observer = False
        """True if this server has introduced itself as an observer: it acknowledges no proposals."""
        self._last = UNKNOWN
        """The end of this server's history, as it was in ACKEPOCH."""
        self._committed = NOTHING
        """Everything up to here is committed once the epoch is established. Only grows."""
        self._unacknowledged: deque[Zxid] = deque()
        """The proposals that the leader waits for, in order: neither acknowledged, nor committed before NEWLEADER."""
        self._ping = 0
        """The number of the last ping."""
        self._adopted = False
        """True once the acknowledgement of NEWLEADER is sent. The leader wants no other packet before it."""
        self._pings: deque[tuple[int, int]] = deque()
        """The pings that are not answered: number and zxid."""
        self._touched: dict[int, int] = {}
        """The sessions to report with the next answer to a ping, with their timeouts in ms."""
        self._syncs: deque[BarrierRequest | CatchUpRequest] = deque()
        """What was sent as a sync and is not answered, in order."""
        self._gathered: _Gathered | None = None
        self._commit = NOTHING
        """A commit that `feed` has read and not passed on yet; NOTHING without one."""
        self._out: list[FromLeader] = []
        """The messages of this `feed`."""

    @property
    def held_bytes(self) -> int:
        return self._reader.held_bytes if self._stream is None else self._stream.held_bytes

    # -- from the leader ---------------------------------------------------------------------------

    def feed(self, data: bytes) -> list[FromLeader]:
        """Return the messages in these bytes. Raise `WireError` if the leader does not keep to the protocol."""
        if self._stream is not None:
            self._read_state(data)
        else:
            self._reader.feed(data)
        while self._stream is None and (packet := self._reader.next()) is not None:
            handler = self._HANDLERS.get(packet.type)
            if handler is None:
                raise WireError(f"a leader does not send {packet.type.name}")
            handler(self, packet)
        self._flush()
        out, self._out = self._out, []
        return out

    def _require(self, packet: QuorumPacket, *phases: Phase) -> None:
        if self.phase not in phases:
            raise WireError(f"{packet.type.name} in phase {self.phase.name}")

    def _on_leader_info(self, packet: QuorumPacket) -> None:
        self._require(packet, Phase.DISCOVERY)
        bodies.check_version(packet)
        self._emit(LeaderInfo(bodies.epoch_in(packet)))
        self.phase = Phase.PROMISED

    def _begin_history(self, packet: QuorumPacket, common: Zxid) -> None:
        self._require(packet, Phase.PROMISED)
        self.phase = Phase.HISTORY
        self._committed = max(self._committed, common)

    def _on_diff(self, packet: QuorumPacket) -> None:
        bodies.position_of(packet)
        if self._last == UNKNOWN:
            raise WireError("DIFF for a server whose history may be incomplete")
        self._begin_history(packet, self._last)
        self._emit(Diff(self._last))

    def _on_trunc(self, packet: QuorumPacket) -> None:
        common = bodies.known_position_of(packet)
        self._begin_history(packet, common)
        self._emit(Trunc(common))

    def _on_snap(self, packet: QuorumPacket) -> None:
        zxid = bodies.known_position_of(packet)
        self._begin_history(packet, zxid)
        self._emit(SnapBegin(zxid, None))
        self._stream = SnapshotStream(zxid, self._bytes_max)
        self._read_state(self._reader.take_rest())

    def _read_state(self, data: bytes) -> None:
        stream = self._stream
        assert stream is not None
        for chunk in stream.feed(data):
            self._emit(SnapChunk(chunk))
        if stream.rest is not None:
            self._stream = None
            self._emit(SnapEnd())
            self._reader.feed(stream.rest)

    def _on_proposal(self, packet: QuorumPacket) -> None:
        self._require(packet, Phase.HISTORY, Phase.ADOPTION, Phase.BROADCAST)
        zxid = bodies.zxid_of(packet)
        self._gather(zxid, packet.body(), inform=False)
        if not self._observer:
            self._unacknowledged.append(zxid)

    def _on_inform(self, packet: QuorumPacket) -> None:
        self._require(packet, Phase.HISTORY, Phase.ADOPTION, Phase.BROADCAST)
        zxid = bodies.zxid_of(packet)
        self._gather(zxid, packet.body(), inform=self.phase is not Phase.HISTORY)
        self._committed = max(self._committed, zxid)

    def _on_inform_and_activate(self, packet: QuorumPacket) -> None:
        self._require(packet, Phase.HISTORY, Phase.ADOPTION, Phase.BROADCAST)
        zxid = bodies.zxid_of(packet)
        designated, data = bodies.decode_designated(packet)
        self._committed = max(self._committed, zxid)
        batch = self._change(decode_proposal(data, zxid))
        # Before NEWLEADER the change is a part of the history, and NEWLEADER has the membership in force.
        history = self.phase is Phase.HISTORY
        self._emit(Propose(batch) if history else InformAndActivate(batch, designated))

    def _on_commit(self, packet: QuorumPacket) -> None:
        self._require(packet, Phase.HISTORY, Phase.ADOPTION, Phase.BROADCAST)
        zxid = bodies.zxid_of(packet)
        self._committed = max(self._committed, zxid)
        if self.phase is Phase.HISTORY:
            self._forget_acknowledged(zxid)
        else:
            self._commit = max(self._commit, zxid)

    def _on_commit_and_activate(self, packet: QuorumPacket) -> None:
        designated, _ = bodies.decode_designated(packet)
        self._on_commit(packet)
        if self.phase is not Phase.HISTORY:
            self._commit = NOTHING
            self._emit(CommitAndActivate(bodies.zxid_of(packet), designated))

    def _on_new_leader(self, packet: QuorumPacket) -> None:
        self._require(packet, Phase.HISTORY)
        epoch, ensemble = bodies.epoch_in(packet), decode_ensemble(packet.body())
        self._emit(NewLeader(epoch, ensemble))
        self.phase = Phase.ADOPTION

    def _on_up_to_date(self, packet: QuorumPacket) -> None:
        self._require(packet, Phase.ADOPTION)
        self.phase = Phase.BROADCAST
        self._emit(UpToDate(self._committed))

    def _on_ping(self, packet: QuorumPacket) -> None:
        if len(self._pings) >= PINGS_MAX:
            raise WireError(f"{PINGS_MAX} pings before one was answered")
        self._ping += 1
        self._pings.append((self._ping, packet.zxid))
        self._emit(Ping(self._ping, self._committed if self.phase is Phase.BROADCAST else NOTHING))

    def _on_sync(self, packet: QuorumPacket) -> None:
        self._require(packet, Phase.ADOPTION, Phase.BROADCAST)
        if not self._syncs:
            raise WireError("SYNC that was not asked for")
        request = self._syncs.popleft()
        is_barrier = isinstance(request, BarrierRequest)
        reply = BarrierReply if is_barrier else CatchUpPoint
        self._emit(reply(request.number, self._committed))

    def _on_revalidate(self, packet: QuorumPacket) -> None:
        self._emit(bodies.decode_revalidate_reply(packet))

    _HANDLERS: Final[dict[PacketType, Callable[[Any, QuorumPacket], None]]] = {
        PacketType.LEADER_INFO: _on_leader_info,
        PacketType.DIFF: _on_diff,
        PacketType.TRUNC: _on_trunc,
        PacketType.SNAP: _on_snap,
        PacketType.PROPOSAL: _on_proposal,
        PacketType.INFORM: _on_inform,
        PacketType.INFORM_AND_ACTIVATE: _on_inform_and_activate,
        PacketType.COMMIT: _on_commit,
        PacketType.COMMIT_AND_ACTIVATE: _on_commit_and_activate,
        PacketType.NEW_LEADER: _on_new_leader,
        PacketType.UP_TO_DATE: _on_up_to_date,
        PacketType.PING: _on_ping,
        PacketType.SYNC: _on_sync,
        PacketType.REVALIDATE: _on_revalidate,
    }

    # -- batches -----------------------------------------------------------------------------------

    def _gather(self, zxid: Zxid, data: bytes, inform: bool) -> None:
        """Add a transaction to the batch that is being made. A change of the membership is a batch of its own."""
        txn = decode_proposal(data, zxid)
        if txn.kind == Op.RECONFIG:
            batch = self._change(txn)
            self._emit(Inform(batch) if inform else Propose(batch))
            return
        payload = payload_of(txn)
        self._note_digest(txn)
        gathered = self._gathered
        if (
            gathered is None
            or gathered.next != zxid
            or gathered.inform != inform
            or len(gathered.payloads) >= BATCH_ENTRIES_MAX
            or gathered.size >= BATCH_BYTES_MAX
        ):
            self._flush_batch()
            gathered = self._gathered = _Gathered(zxid, [], 0, inform)
        gathered.payloads.append(payload)
        gathered.size += len(payload)

    def _change(self, txn: FileTxn) -> Batch:
        self._note_digest(txn)
        return batch_of(txn)

    def _note_digest(self, txn: FileTxn) -> None:
        if txn.digest is not None:
            self.digests.append((Zxid(txn.zxid), *txn.digest))

    def _flush_batch(self) -> None:
        gathered, self._gathered = self._gathered, None
        if gathered is not None:
            batch = pack(gathered.first, gathered.payloads)
            self._out.append(Inform(batch) if gathered.inform else Propose(batch))

    def _flush(self) -> None:
        """Pass on the gathered transactions, and the commit after them."""
        self._flush_batch()
        commit, self._commit = self._commit, NOTHING
        if commit:
            self._out.append(Commit(commit))

    def _emit(self, message: FromLeader) -> None:
        self._flush()
        self._out.append(message)

    # -- to the leader -----------------------------------------------------------------------------

    def touch(self, session: int, timeout_ms: int) -> None:
        """Report with the next answer to a ping that a client has used its session."""
        self._touched[session] = timeout_ms

    def take_digests(self) -> list[TreeDigests]:
        """Remove and return the `digests` of the last `feed`, if it has brought any."""
        digests = tuple(self.digests)
        self.digests.clear()
        return [TreeDigests(digests)] if digests else []

    def encode(self, message: object) -> bytes:
        """Return the packets of a message: none if the leader needs none.

        Raise `LocalProtocolError` for a message without an equal in this protocol.
        """
        match message:
            case FollowerInfo():
                self._observer = message.observer
                kind = PacketType.OBSERVER_INFO if message.observer else PacketType.FOLLOWER_INFO
                version = message.ensemble_version if self._reconfig_enabled else NOTHING
                info = bodies.encode_info(LearnerInfo(self._me, version))
                return encode_packet(QuorumPacket(kind, make(message.accepted_epoch, 0), info))
            case AckEpoch():
                return self._ack_epoch(message)
            case AckNewLeader():
                return self._ack_new_leader(message.epoch)
            case Ack():
                return self._acks(message.zxid)
            case Pong():
                return b"" if message == ALIVE else self._pong(message.number)
            case BarrierRequest() | CatchUpRequest():
                self._syncs.append(message)
                sync = LearnerRequest(_SYNC_SESSION, message.number & 0x7FFF_FFFF, Op.SYNC, _SYNC_BODY)
                return encode_packet(bodies.request_packet(sync))
            case SessionTouches():
                self._touched.update(message.sessions)
                return b""
            case LearnerRequest():
                return encode_packet(bodies.request_packet(message))
            case RevalidateRequest():
                return encode_packet(bodies.revalidation_packet(message))
            case Veto() | SnapHeld():
                return b""
            case _:
                raise LocalProtocolError(f"{type(message).__name__} has no equal in ZooKeeper's protocol")

    def _ack_epoch(self, message: AckEpoch) -> bytes:
        if message.forgotten and not self._observer:
            raise LocalProtocolError(
                "this server may have lost promises, and a leader of ZooKeeper would count it all the same: remove it "
                "from the membership, start it as an observer, and add it again"
            )
        self._last = message.last
        epoch = message.current_epoch if message.counts else bodies.NOT_COUNTED
        return encode_packet(QuorumPacket(PacketType.ACK_EPOCH, message.last, bodies.encode_epoch(epoch)))

    def _ack_new_leader(self, epoch: Epoch) -> bytes:
        self._adopted = True
        return encode_packet(QuorumPacket(PacketType.ACK, make(epoch, 0)))

    def _acks(self, zxid: Zxid) -> bytes:
        acks = []
        unacknowledged = self._unacknowledged
        while unacknowledged and unacknowledged[0] <= zxid:
            acks.append(encode_packet(QuorumPacket(PacketType.ACK, unacknowledged.popleft())))
        return b"".join(acks)

    def _forget_acknowledged(self, zxid: Zxid) -> None:
        while self._unacknowledged and self._unacknowledged[0] <= zxid:
            self._unacknowledged.popleft()

    def _pong(self, number: int) -> bytes:
        zxid = NO_ZXID
        while self._pings and self._pings[0][0] <= number:
            _, zxid = self._pings.popleft()
        if not self._adopted:
            return b""
        touched, self._touched = self._touched, {}
        if len(touched) > TOUCHES_MAX:
            rest = list(touched.items())
            touched, self._touched = dict(rest[:TOUCHES_MAX]), dict(rest[TOUCHES_MAX:])
        return encode_packet(QuorumPacket(PacketType.PING, zxid, bodies.encode_touches(touched)))
