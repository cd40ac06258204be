"""What brings a learner up to date: often long, so it is made piece by piece, when its turn on the link has come.

A link's queue is bounded, and a peer that lets it overflow is cut. What a synchronization sends at its
beginning may be larger than any queue and is nobody's slowness, so it waits as a list of what is to be
sent, not as the bytes. Snapshots and old log are pulled in a thread, one handful ahead of the stream: a
slow link holds a handful in memory, not a snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import trio
from attrs import frozen

from zab.core.batch import Batch
from zab.core.errors import DamagedError, StorageError
from zab.core.messages import Diff, Inform, Message, Propose, SnapBegin, SnapEnd, SnapResume, Trunc
from zab.core.ready import SendLog, SendRest, SendSnapshot
from zab.core.zxid import Zxid
from zab.host.logs import Log
from zab.host.pace import beside_the_loop
from zab.runtime.environment import REAL_ENVIRONMENT, Environment
from zab.runtime.link import BulkSender, Link, Send
from zab.service.limits import Limits
from zab.storage.log_reader import Purged
from zab.storage.storage import Storage
from zab.wire.peer import ENVELOPE_BYTES_MAX, encode
from zab.wire.snapshot_pieces import cut_chunk

HANDFUL_BYTES: Final = 256 << 10

STARTS_SYNC: Final = (Diff, Trunc, SendSnapshot, SendRest)


@frozen
class SnapshotToSend:
    """`SendSnapshot` with the chunks of the machine, taken when it was asked for."""

    what: SendSnapshot
    chunks: Iterable[bytes]


Item = SnapshotToSend | SendRest | SendLog | Message


class ChunkTooLarge(Exception):
    """Of the user's machine: nothing that this member could mend, nor a reason to end it."""


class LearnerSync:
    """`log_starts` is told when the log on disk turns out not to be there: the next plan shall not rely on it."""

    def __init__(
        self,
        storage: Storage,
        limits: Limits,
        log: Log,
        log_starts: Callable[[Zxid], None],
        environment: Environment = REAL_ENVIRONMENT,
    ) -> None:
        self._environment = environment
        self._storage = storage
        self._piece_bytes_max = limits.frame_bytes_max - ENVELOPE_BYTES_MAX
        self._chunk_bytes_max = limits.snapshot_chunk_bytes_max
        self._log = log
        self._log_starts = log_starts
        self._limiter = trio.CapacityLimiter(4)

    def bulk_sender(self, items: Sequence[Item], link: Link) -> BulkSender:
        async def transfer(send: Send) -> None:
            gathered: list[bytes] = []
            size = 0
            for item in items:
                if isinstance(item, SnapshotToSend | SendRest | SendLog):
                    if gathered:
                        await send(b"".join(gathered))
                        gathered, size = [], 0
                    await self._pull(item, link, send)
                    continue
                frame = encode(item)
                gathered.append(frame)
                size += len(frame)
                if size >= HANDFUL_BYTES:
                    await send(b"".join(gathered))
                    gathered, size = [], 0
            if gathered:
                await send(b"".join(gathered))

        return transfer

    async def _pull(self, item: SnapshotToSend | SendRest | SendLog, link: Link, send: Send) -> None:
        frames = self._frames(item)

        def handful() -> bytes:
            taken: list[bytes] = []
            size = 0
            for frame in frames:
                taken.append(frame)
                size += len(frame)
                if size >= HANDFUL_BYTES:
                    break
            return b"".join(taken)

        try:
            while True:
                with beside_the_loop():
                    data = await self._environment.in_thread(handful, limiter=self._limiter)
                if not data:
                    break
                await send(data)
        except ChunkTooLarge as error:
            # The peer comes again and finds the same: it cannot be served until machine or limit are changed.
            self._log.warn_rate_limited("snapshot_not_sendable", link.peer, peer=link.peer, why=error)
            link.cut(f"the snapshot cannot be sent: {error}")
            await trio.lowlevel.checkpoint_if_cancelled()  # what is behind it must not leave without it
        except (Purged, StorageError) as error:
            if isinstance(item, SendRest):
                # Purged or rotten since it was found. The peer comes again, and the file is looked at again.
                self._log.say("snapshot_unreadable", "warning", peer=link.peer, why=error)
                link.cut(f"the snapshot is not readable: {error}")
                await trio.lowlevel.checkpoint_if_cancelled()
                return
            if isinstance(item, SnapshotToSend) or not isinstance(error, Purged | DamagedError):
                raise
            # Purged between plan and sending, or rotten. The peer comes again, and shall get a snapshot then.
            self._log.say("log_unreadable", "warning", peer=link.peer, why=error)
            self._log_starts(item.until)
            link.cut(f"the log is not readable: {error}")
            await trio.lowlevel.checkpoint_if_cancelled()  # as above: there would be a hole

    def _frames(self, item: SnapshotToSend | SendRest | SendLog) -> Iterator[bytes]:
        if isinstance(item, SendLog):
            return self._log_frames(item)
        if isinstance(item, SnapshotToSend):
            return self._snapshot_frames(SnapBegin(item.what.zxid, item.what.digest), item.chunks)
        held, found = item.held, item.found
        rest = SnapResume(held.zxid, found.digest, held.size, found.size)
        return self._snapshot_frames(rest, self._storage.read_rest(held))

    def _snapshot_frames(self, begin: SnapBegin | SnapResume, chunks: Iterable[bytes]) -> Iterator[bytes]:
        yield encode(begin)
        for chunk in chunks:
            if len(chunk) > max(self._chunk_bytes_max, self._piece_bytes_max):
                limit = f"at most {self._chunk_bytes_max} are allowed (Limits.snapshot_chunk_bytes_max)"
                raise ChunkTooLarge(f"the machine gave a snapshot chunk of {len(chunk)} bytes; {limit}")
            yield from map(encode, cut_chunk(chunk, self._piece_bytes_max))
        yield encode(SnapEnd())

    def _log_frames(self, what: SendLog) -> Iterator[bytes]:
        batches: Iterator[Batch] = self._storage.read_log(what.after, what.until)
        for batch in batches:
            yield encode(Inform(batch) if what.inform else Propose(batch))
