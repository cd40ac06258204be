"""The bytes that bring a learner up to date, read piece by piece while the link sends them.

A link's queue is bounded, and an overflow cuts the link. The data of a synchronization may be larger than any queue,
although the peer is not slow. So the queue holds a list of items, not their bytes. A thread reads a snapshot or a part
of the log piece by piece, each piece when the stream has taken the one before. So a slow link never has a whole
snapshot in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol, runtime_checkable

import trio
from attrs import frozen

from zab.core.batch import Batch
from zab.core.errors import DamagedError, LocalProtocolError, StorageError
from zab.core.messages import Diff, Message, Propose, SnapBegin, SnapChunk, SnapEnd, SnapResume, Trunc
from zab.core.ready import SendLog, SendRest, SendSnapshot
from zab.core.zxid import Zxid
from zab.host.logs import Log
from zab.host.pace import beside_the_loop
from zab.runtime.environment import REAL_ENVIRONMENT, Environment
from zab.runtime.link import BulkSender, Link, Send
from zab.service.limits import Limits
from zab.storage.log_reader import Purged
from zab.storage.storage import Storage
from zab.wire.apache.snapshot_stream import encode_state
from zab.wire.link_codec import LinkCodec, PacketCodec
from zab.wire.peer import ENVELOPE_BYTES_MAX, encode
from zab.wire.snapshot_pieces import cut_chunk

PIECE_BYTES: Final = 256 << 10
"""The approximate size of the pieces in which frames are read and sent."""

STARTS_SYNC: Final = (Diff, Trunc, SendSnapshot, SendRest)


@frozen
class SnapshotToSend:
    """A `SendSnapshot` with the chunks of the machine's state, which `snapshot` returned in the turn of the Ready."""

    item: SendSnapshot
    chunks: Iterable[bytes]


@runtime_checkable
class Peekable(Protocol):
    """A snapshot whose chunks can be read once more."""

    def peek(self) -> Iterator[bytes]: ...


Item = SnapshotToSend | SendRest | SendLog | Message


class ChunkTooLarge(Exception):
    """The state machine's snapshot has a chunk over the limit, so it cannot be sent. Only the link is cut."""


class LearnerSync:
    """Turns the plan of each synchronization into frames for its link."""

    def __init__(
        self,
        storage: Storage,
        limits: Limits,
        log: Log,
        log_starts: Callable[[Zxid], None],
        environment: Environment = REAL_ENVIRONMENT,
    ) -> None:
        """`log_starts` receives the end of a purged or damaged part of the log. Later plans use the log after it."""
        self._environment = environment
        self._storage = storage
        self._piece_bytes_max = limits.frame_bytes_max - ENVELOPE_BYTES_MAX
        self._chunk_bytes_max = limits.snapshot_chunk_bytes_max
        self._log = log
        self._log_starts = log_starts
        self._limiter = trio.CapacityLimiter(4)

    def bulk_sender(self, items: Sequence[Item], link: Link) -> BulkSender:
        """Return a function that sends all items in order. The link calls it when it is first in the queue."""

        async def send_all(send: Send) -> None:
            try:
                await send_items(send)
            except LocalProtocolError as error:
                # The history comes from an ensemble of our own. The protocol of the learner lacks a transaction of it.
                self._log.warn_rate_limited("history_not_sent", link.peer, peer=link.peer, why=error)
                link.cut(f"the history cannot be sent: {error}")
                await trio.lowlevel.checkpoint_if_cancelled()

        async def send_items(send: Send) -> None:
            gathered: list[bytes] = []
            size = 0
            for item in items:
                if isinstance(item, SnapshotToSend | SendRest | SendLog):
                    if gathered:
                        await send(b"".join(gathered))
                        gathered, size = [], 0
                    await self._send_item(item, link, send)
                    continue
                frame = link.codec.encode(item)
                gathered.append(frame)
                size += len(frame)
                if size >= PIECE_BYTES:
                    await send(b"".join(gathered))
                    gathered, size = [], 0
            if gathered:
                await send(b"".join(gathered))

        return send_all

    async def _send_item(self, item: SnapshotToSend | SendRest | SendLog, link: Link, send: Send) -> None:
        frames = self._frames(item, link.codec)

        def next_piece() -> bytes:
            taken: list[bytes] = []
            size = 0
            for frame in frames:
                taken.append(frame)
                size += len(frame)
                if size >= PIECE_BYTES:
                    break
            return b"".join(taken)

        try:
            while True:
                with beside_the_loop():
                    data = await self._environment.in_thread(next_piece, limiter=self._limiter)
                if not data:
                    break
                await send(data)
        except ChunkTooLarge as error:
            # The peer dials again with the same result, until the state machine or the limit is changed.
            self._log.warn_rate_limited("snapshot_not_sent", link.peer, peer=link.peer, why=error)
            link.cut(f"the snapshot cannot be sent: {error}")
            await trio.lowlevel.checkpoint_if_cancelled()  # later items must not follow without the snapshot
        except (Purged, StorageError) as error:
            if isinstance(item, SendRest):
                # The file was purged or damaged since it was found. The peer dials again, which repeats the search.
                self._log.say("snapshot_unreadable", "warning", peer=link.peer, why=error)
                link.cut(f"the snapshot is not readable: {error}")
                await trio.lowlevel.checkpoint_if_cancelled()
                return
            if isinstance(item, SnapshotToSend) or not isinstance(error, Purged | DamagedError):
                raise
            # The log was purged after the plan was made, or is damaged. The peer dials again, and gets a snapshot.
            self._log.say("log_unreadable", "warning", peer=link.peer, why=error)
            self._log_starts(item.until)
            link.cut(f"the log is not readable: {error}")
            # Later items would leave a gap in the learner's history.
            await trio.lowlevel.checkpoint_if_cancelled()

    def _frames(self, item: SnapshotToSend | SendRest | SendLog, codec: LinkCodec) -> Iterator[bytes]:
        if isinstance(item, SendLog):
            return self._log_frames(item, codec)
        if isinstance(item, SnapshotToSend):
            begin = SnapBegin(item.item.zxid, item.item.digest)
            if isinstance(codec, PacketCodec):
                return _state_packets(begin, item.chunks, codec)
            return self._snapshot_frames(begin, item.chunks)
        held, found = item.held, item.found
        rest = SnapResume(held.zxid, found.digest, held.size, found.size)
        return self._snapshot_frames(rest, self._storage.read_rest(held))

    def _snapshot_frames(self, begin: SnapBegin | SnapResume, chunks: Iterable[bytes]) -> Iterator[bytes]:
        yield encode(begin)
        for chunk in chunks:
            if len(chunk) > (most := max(self._chunk_bytes_max, self._piece_bytes_max)):
                limit = f"at most {most} are allowed (Limits.snapshot_chunk_bytes_max)"
                raise ChunkTooLarge(f"the state machine returned a snapshot chunk of {len(chunk)} bytes; {limit}")
            yield from map(encode, cut_chunk(chunk, self._piece_bytes_max))
        yield encode(SnapEnd())

    def _log_frames(self, what: SendLog, codec: LinkCodec) -> Iterator[bytes]:
        batches: Iterator[Batch] = self._storage.read_log(what.after, what.until)
        for batch in batches:
            yield codec.encode(Propose(batch))


def _state_packets(begin: SnapBegin, chunks: Iterable[bytes], codec: PacketCodec) -> Iterator[bytes]:
    """Yield a snapshot of our store in ZooKeeper's format. Its chunks are read twice."""
    passes: Iterator[Iterable[bytes]]
    if isinstance(chunks, Peekable):
        passes = iter((chunks.peek(), chunks))
    else:
        held = list(chunks)
        passes = iter((held, held))
    yield codec.encode(begin)
    for piece in encode_state(lambda: next(passes)):
        yield codec.encode(SnapChunk(piece))
    yield codec.encode(SnapEnd())
