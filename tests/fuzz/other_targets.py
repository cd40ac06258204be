"""The decoders that are not ZooKeeper's own: links between servers, our own transactions and snapshots, and DER."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from tests.fuzz.target import FRAME_BYTES_MAX, Target, in_pieces
from zab.core.errors import DamagedError, WireError
from zab.core.messages import SnapChunk
from zab.core.zxid import ServerId, Zxid
from zab.store import transactions
from zab.store.acl import OPEN
from zab.store.store import Store
from zab.wire import peer
from zab.wire.frames import FrameReader
from zab.wire.greeting import Hello, Purpose, Welcome
from zab.wire.relay_messages import CatchUpPoint, LeaderMessage, SnapPiece
from zab.wire.snapshot_pieces import SnapshotPieces

_CHANNELS: Final = list(peer.Channel)


def _peer(data: bytes) -> bool:
    """The first byte picks the channel."""
    channel, payload = _CHANNELS[data[0] % len(_CHANNELS)] if data else _CHANNELS[0], data[1:]
    with suppress(WireError):
        message = peer.decode(channel, payload)
        assert peer.decode(channel, peer.encode(message)[4:]) == message
        return True
    return False


def _peer_stream(data: bytes) -> bool:
    channel = next(each for each in _CHANNELS if _speaks_of_pieces(each))
    reader, pieces = FrameReader(FRAME_BYTES_MAX), SnapshotPieces(FRAME_BYTES_MAX)
    with suppress(WireError):
        for part in in_pieces(data, 7):
            pieces.join([peer.decode(channel, payload) for payload in reader.feed(part)])
            assert reader.held_bytes <= FRAME_BYTES_MAX + 11
            assert pieces.held_bytes <= FRAME_BYTES_MAX
        return True
    return False


def _speaks_of_pieces(channel: peer.Channel) -> bool:
    with suppress(WireError):
        peer.decode(channel, peer.encode(SnapPiece(b""))[4:])
        return True
    return False


def _store_txn(data: bytes) -> bool:
    with suppress(DamagedError):
        transactions.decode(data)
        return True
    return False


def _store_snapshot(data: bytes) -> bool:
    store = Store()
    with suppress(DamagedError):
        store.restore(data.split(b"next"))
        store.tree.check()
        return True
    return False


def _on_its_channel(message: peer.PeerMessage) -> bytes:
    payload = peer.encode(message)[4:]
    for index, channel in enumerate(_CHANNELS):
        with suppress(WireError):
            peer.decode(channel, payload)
            return bytes((index,)) + payload
    raise AssertionError(f"{message} is said on no channel")


_MESSAGES: Final[list[peer.PeerMessage]] = [
    Hello(2, "e", ServerId(1), Purpose.LEARNER.value, "h", 1),
    Welcome(2, ServerId(1)),
    LeaderMessage(b"x"),
]
_STORE_TXNS: Final = [
    transactions.create(transactions.CREATE, 1, 2, 3, "/a", b"hi", OPEN, 0, 1),
    transactions.set_data(1, 2, 3, "/a", None, 4),
    transactions.multi(1, 2, 3, [transactions.delete(1, 2, 3, "/a"), transactions.check(1, 2, 3, "/a", 1)]),
    transactions.failed_multi(1, 2, 3, 3, 1, -101),
    transactions.close_session(1, 2, 3, ("/a", "/b")),
    transactions.checkpoint(1, 2, transactions.error(1, 2, 3, -1)),
]

TARGETS: Final = {
    "peer": Target(_peer, [_on_its_channel(message) for message in _MESSAGES]),
    "peer stream": Target(
        _peer_stream,
        [peer.encode(SnapPiece(b"ab")) + peer.encode(SnapChunk(b"c")) + peer.encode(CatchUpPoint(1, Zxid(2)))],
    ),
    "store txn": Target(_store_txn, _STORE_TXNS),
    "store snapshot": Target(_store_snapshot, [b"next".join(Store().snapshot())]),
}
