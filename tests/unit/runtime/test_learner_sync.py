from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, cast

import pytest
import trio

from zab.core.batch import Batch, pack
from zab.core.errors import DamagedError, StorageError
from zab.core.messages import Diff, Message, Propose, SnapBegin, SnapChunk, SnapEnd, SnapHeld, SnapResume
from zab.core.ready import Envelope, FoundSnapshot, SendLog, SendRest, SendSnapshot
from zab.core.zxid import Epoch, ServerId, Zxid, make
from zab.host.logs import Log
from zab.net.wakeup import Wakeup
from zab.runtime.election_links import ElectionLinks
from zab.runtime.inbox import Inbox
from zab.runtime.learner_sync import PIECE_BYTES, Item, LearnerSync, SnapshotToSend
from zab.runtime.link import BulkSender, Link
from zab.runtime.links import Links
from zab.runtime.peer_port import PeerDialler
from zab.service.limits import Limits
from zab.storage.log_reader import Purged
from zab.storage.storage import Storage
from zab.store import transactions
from zab.store.acl import OPEN
from zab.store.store import Store
from zab.store.store_settings import StoreSettings
from zab.wire.apache.link_to_leader import LinkToLeader, Phase
from zab.wire.apache.link_to_learner import LinkToLearner
from zab.wire.apache.proposals import NO_TAG
from zab.wire.frames import FrameReader
from zab.wire.link_codec import PacketCodec
from zab.wire.peer import Channel, decode
from zab.wire.relay_messages import SnapPiece
from zab.wire.snapshot_pieces import SnapshotPieces


class FakeStorage:
    def __init__(self, *batches: Batch, error: Exception | None = None) -> None:
        self.asked: list[tuple[Zxid, Zxid]] = []
        self.threads: set[int] = set()
        self._batches = batches
        self._error = error

    def read_rest(self, held: SnapHeld) -> Iterator[bytes]:
        assert held == HELD
        self.threads.add(threading.get_ident())
        yield b"more"
        if self._error is not None:
            raise self._error
        yield b"last"

    def read_log(self, after: Zxid, until: Zxid) -> Iterator[Batch]:
        self.asked.append((after, until))
        self.threads.add(threading.get_ident())
        yield from self._batches
        if self._error is not None:
            raise self._error


class World:
    def __init__(self, storage: FakeStorage | None = None, limits: Limits = Limits()) -> None:  # noqa: B008
        self.storage = storage or FakeStorage()
        self.log_starts: list[Zxid] = []
        self.learner_sync = LearnerSync(
            cast(Storage, self.storage),
            limits,
            Log(ServerId(1), lambda: Epoch(1)),
            self.log_starts.append,
        )
        self.link = Link(ServerId(2), False, Limits())
        self.sent: list[bytes] = []

    async def run(self, lazy: BulkSender) -> list[Any]:
        async def send(data: bytes) -> None:
            await trio.lowlevel.checkpoint()
            self.sent.append(data)

        await lazy(send)
        payloads = FrameReader(1 << 24).feed(b"".join(self.sent))
        return [decode(Channel.TO_LEARNER, payload) for payload in payloads]


HELD = SnapHeld(make(1, 2), 500, b"sum of 16 bytes.")
REST = SendRest(HELD, FoundSnapshot(99, 900))


def batch(counter: int, size: int = 10) -> Batch:
    return pack(make(1, counter), [bytes(size)])


async def test_a_synchronization_arrives_in_its_order() -> None:
    world = World(FakeStorage(batch(3), batch(4)))
    snapshot = SnapshotToSend(SendSnapshot(make(1, 2), 99), iter([b"one", b"two"]))
    items: list[Item] = [snapshot, SendLog(make(1, 2), make(1, 4)), Propose(batch(5)), Propose(batch(6))]
    assert await world.run(world.learner_sync.bulk_sender(items, world.link)) == [
        SnapBegin(make(1, 2), 99),
        SnapChunk(b"one"),
        SnapChunk(b"two"),
        SnapEnd(),
        *(Propose(batch(counter)) for counter in (3, 4, 5, 6)),
    ]
    assert world.storage.asked == [(make(1, 2), make(1, 4))]
    assert threading.get_ident() not in world.storage.threads


async def test_the_rest_of_a_snapshot_arrives_in_front_of_the_log_behind_it() -> None:
    world = World(FakeStorage(batch(3)))
    items: list[Item] = [REST, SendLog(make(1, 2), make(1, 3)), Propose(batch(4))]
    assert await world.run(world.learner_sync.bulk_sender(items, world.link)) == [
        SnapResume(make(1, 2), 99, 500, 900),
        SnapChunk(b"more"),
        SnapChunk(b"last"),
        SnapEnd(),
        Propose(batch(3)),
        Propose(batch(4)),
    ]
    assert threading.get_ident() not in world.storage.threads


@pytest.mark.parametrize("error", [StorageError("it was purged"), DamagedError("the checksum is wrong")])
async def test_a_snapshot_file_that_became_unreadable_cuts_the_link_and_nothing_behind_it_leaves(
    error: Exception,
) -> None:
    world = World(FakeStorage(error=error))
    items: list[Item] = [REST, Propose(batch(4))]
    heard: list[Any] = []
    with world.link._scope:
        heard = await world.run(world.learner_sync.bulk_sender(items, world.link))
    assert world.link.reason == f"the snapshot is not readable: {error}"
    assert not any(isinstance(message, Propose | SnapEnd) for message in heard)


async def test_a_snapshot_is_pulled_by_the_handful() -> None:
    world = World()
    pulled = 0

    def chunks() -> Iterator[bytes]:
        nonlocal pulled
        for _ in range(40):
            pulled += 1
            yield bytes(PIECE_BYTES // 4)

    seen: list[int] = []

    async def send(data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        seen.append(pulled)

    await world.learner_sync.bulk_sender([SnapshotToSend(SendSnapshot(make(1, 1), 0), chunks())], world.link)(send)
    assert seen[0] <= 4
    assert all(later - earlier <= 4 for earlier, later in pairwise(seen))
    assert pulled == 40


async def test_many_proposals_are_sent_by_the_handful() -> None:
    world = World()
    items = [Propose(batch(counter, PIECE_BYTES // 3)) for counter in range(1, 10)]
    assert await world.run(world.learner_sync.bulk_sender(items, world.link)) == items
    assert len(world.sent) == 3


async def test_a_chunk_that_fits_in_no_frame_is_sent_in_pieces() -> None:
    world = World(limits=Limits(frame_bytes_max=1064))
    chunks = [b"small", b"", b"a" * 1000, b"b" * 1001, b"c" * 3000]
    messages = await world.run(
        world.learner_sync.bulk_sender([SnapshotToSend(SendSnapshot(make(1, 1), 0), iter(chunks))], world.link)
    )
    assert messages == [
        SnapBegin(make(1, 1), 0),
        SnapChunk(b"small"),
        SnapChunk(b""),
        SnapChunk(b"a" * 1000),
        SnapPiece(b"b" * 1000),
        SnapChunk(b"b"),
        SnapPiece(b"c" * 1000),
        SnapPiece(b"c" * 1000),
        SnapChunk(b"c" * 1000),
        SnapEnd(),
    ]
    assert len(FrameReader(1064).feed(b"".join(world.sent))) == len(messages)
    assert SnapshotPieces(3000).join(messages)[1:-1] == [SnapChunk(chunk) for chunk in chunks]


async def test_oversized_chunk_costs_the_link_and_not_the_member(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(limits=Limits(frame_bytes_max=100, snapshot_chunk_bytes_max=1000))
    chunks = iter([bytes(1000), bytes(1001)])
    await world.run(world.learner_sync.bulk_sender([SnapshotToSend(SendSnapshot(make(1, 1), 0), chunks)], world.link))
    assert "a snapshot chunk of 1001 bytes; at most 1000 are allowed" in world.link.reason
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "snapshot_not_sent" in record.message
    assert "Limits.snapshot_chunk_bytes_max" in record.message


@pytest.mark.parametrize("error", [Purged("gone"), DamagedError("rotten")])
async def test_a_log_that_cannot_be_read_cuts_the_link_and_is_not_planned_with_again(error: Exception) -> None:
    world = World(FakeStorage(batch(3), error=error))
    await world.run(world.learner_sync.bulk_sender([SendLog(make(1, 2), make(1, 9))], world.link))
    assert world.log_starts == [make(1, 9)]
    assert "not readable" in world.link.reason


async def test_synchronization_data_counts_toward_no_link_limit() -> None:
    """Otherwise a learner that lacks more than a link's queue would be cut for ever."""
    world = World()
    limits = Limits(link_bytes_max=1000)
    links = Links(
        cast(PeerDialler, None),
        cast(ElectionLinks, None),
        world.learner_sync,
        Inbox(Wakeup(), 1, int),
        limits,
        lambda peer: [],
    )
    link = Link(ServerId(2), False, limits)
    links.accept(link)
    diff: list[Message] = [
        Diff(make(1, 0), 0),
        *(Propose(batch(counter, 500)) for counter in range(1, 10)),
        Propose(batch(10)),
    ]
    links.send([Envelope(ServerId(2), message) for message in diff], list)
    assert link.reason == "closed"
    assert link.queued_bytes == 0
    links.send([Envelope(ServerId(2), Propose(batch(counter, 500))) for counter in (11, 12)], list)
    assert "too slow" in link.reason


# -- to a learner that speaks the protocol of ZooKeeper ----------------------------------------------------


def zookeeper_link() -> Link:
    return Link(ServerId(2), False, Limits(), codec=PacketCodec(LinkToLearner()))


async def test_snapshot_of_a_store_becomes_the_state_of_zookeeper() -> None:
    store = Store(StoreSettings(checkpoints=False))
    store.apply(make(1, 1), transactions.create(1, 0, 0, 0, "/a", b"data", OPEN, 0, 1))
    world = World(FakeStorage(pack(make(1, 2), [NO_TAG + transactions.error(0, 0, 0, -101)])))
    sent: list[bytes] = []

    async def send(data: bytes) -> None:
        sent.append(data)

    snapshot = SnapshotToSend(SendSnapshot(make(1, 1), None), store.snapshot())
    await world.learner_sync.bulk_sender([snapshot, SendLog(make(1, 1), make(1, 2))], zookeeper_link())(send)
    learner = LinkToLeader(ServerId(2))
    learner.phase = Phase.PROMISED
    begin, *chunks, end, proposal = learner.feed(b"".join(sent))
    assert begin == SnapBegin(make(1, 1), None)
    assert end == SnapEnd()
    assert isinstance(proposal, Propose)
    restored = Store()
    restored.restore([chunk.data for chunk in chunks if isinstance(chunk, SnapChunk)])
    assert restored.tree.nodes["/a"][0] == b"data"


async def test_history_that_zookeeper_lacks_cuts_the_link_only() -> None:
    world = World(FakeStorage(pack(make(1, 3), [NO_TAG + transactions.set_secret(0, b"secret")])))
    link = zookeeper_link()

    async def send(data: bytes) -> None: ...

    await world.learner_sync.bulk_sender([Diff(make(1, 2)), SendLog(make(1, 2), make(1, 3))], link)(send)
    assert "the history cannot be sent" in link.reason
