"""What is too long for one frame, sent piece by piece when its turn on the link has come: snapshots and old log.

The pieces are pulled in a thread, one handful ahead of the stream. So a link that is slow holds a handful
in memory, not a snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import trio

from zab.core.batch import Batch
from zab.core.errors import DamagedError, LocalProtocolError
from zab.core.messages import Inform, Propose, SnapBegin, SnapChunk, SnapEnd
from zab.core.ready import SendLog, SendSnapshot
from zab.runtime.link import Lazy, Link, Send
from zab.runtime.logs import Log
from zab.storage.reading import Purged
from zab.wire.peer import encode

HANDFUL_BYTES = 256 << 10
CHUNK_SPARE_BYTES = 64
"""Room for what a frame holds beside its chunk."""


def snapshot_frames(what: SendSnapshot, chunks: Iterable[bytes], frame_bytes_max: int) -> Iterator[bytes]:
    yield encode(SnapBegin(what.zxid, what.digest))
    for chunk in chunks:
        if len(chunk) > frame_bytes_max - CHUNK_SPARE_BYTES:
            raise LocalProtocolError(f"a snapshot chunk of {len(chunk)} bytes does not fit into frame_bytes_max")
        yield encode(SnapChunk(chunk))
    yield encode(SnapEnd())


def log_frames(what: SendLog, batches: Iterable[Batch]) -> Iterator[bytes]:
    for batch in batches:
        yield encode(Inform(batch) if what.inform else Propose(batch))


def lazily(
    open_frames: Callable[[], Iterator[bytes]],
    link: Link,
    log: Log,
    limiter: trio.CapacityLimiter,
    unreadable: Callable[[], None],
) -> Lazy:
    """`open_frames` is called, and what it returns is pulled, in a thread. `unreadable`: the log is no longer there."""

    async def transfer(send: Send) -> None:
        frames: Iterator[bytes] | None = None

        def handful() -> bytes:
            nonlocal frames
            if frames is None:
                frames = open_frames()
            taken: list[bytes] = []
            size = 0
            for frame in frames:
                taken.append(frame)
                size += len(frame)
                if size >= HANDFUL_BYTES:
                    break
            return b"".join(taken)

        try:
            while data := await trio.to_thread.run_sync(handful, limiter=limiter):
                await send(data)
                link.sent_bytes += len(data)
        except (Purged, DamagedError) as error:
            # Purged between plan and sending, or rotten. The peer comes again, and shall get a snapshot then.
            log.say("log_unreadable", "warning", peer=link.peer, why=error)
            unreadable()
            link.cut(f"the log is not readable: {error}")

    return transfer
