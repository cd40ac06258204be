"""Random allowed writes with random crashes: the disk recovers the state of the model.

The other files try every call of one workload. This one tries many workloads.
"""

from __future__ import annotations

from attrs import define, evolve, field
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.storage.model import Model, check, epochs, legal_after
from zab.core.batch import pack
from zab.core.ready import (
    AbortSnapshot,
    Append,
    BeginSnapshot,
    InstallSnapshot,
    KeepSnapshot,
    SnapshotChunk,
    Truncate,
    Write,
)
from zab.core.zxid import NOTHING, Zxid, epoch_of, make
from zab.storage.memory_disk import Crash, MemoryDisk
from zab.storage.storage import Storage, StorageSettings

payloads = st.lists(
    st.one_of(st.binary(max_size=20), st.sampled_from([bytes(600), bytes(1100), b"\xff" * 700, b"\xb2\xe7" * 30])),
    min_size=1,
    max_size=4,
)
chunks = st.lists(st.binary(max_size=300), max_size=4)
layouts = st.builds(
    StorageSettings,
    segment_bytes=st.sampled_from([1, 300, 900, 3000, 1 << 20]),
    preallocate=st.just(False),
    snapshots_kept=st.integers(1, 3),
)
preallocated = st.builds(StorageSettings, segment_bytes=st.sampled_from([1000, 4000]), preallocate=st.just(True))


kinds = st.sampled_from(["append", "append", "append", "epoch", "truncate", "install", "abort"])


@define
class Author:
    """Draws writes that a node could request, from the model's state alone."""

    data: st.DataObject
    model: Model
    committed: Zxid = NOTHING
    writes: list[Write] = field(factory=list)

    def add(self, write: Write) -> None:
        self.writes.append(write)
        self.model = self.model.after(write)

    def group(self) -> list[Write]:
        self.writes = []
        for _ in range(self.data.draw(st.integers(1, 4))):
            kind = self.data.draw(
                st.sampled_from(["append", "append", "append", "epoch", "truncate", "install", "abort"])
            )
            getattr(self, kind)()
        return self.writes

    def append(self) -> None:
        last, accepted = self.model.last, self.model.accepted
        may_go_on = last > NOTHING
        if accepted > epoch_of(last) and (not may_go_on or self.data.draw(st.booleans())):
            first = make(self.data.draw(st.integers(epoch_of(last) + 1, accepted)), 1)
        elif may_go_on:
            first = Zxid(last + 1)
        else:
            return
        self.add(Append(0, pack(first, self.data.draw(payloads))))

    def epoch(self) -> None:
        accepted = self.model.accepted + self.data.draw(st.integers(0, 2))
        current = self.data.draw(st.integers(max(self.model.current, epoch_of(self.model.last)), accepted))
        self.add(epochs(accepted, current))

    def truncate(self) -> None:
        floor = max(self.committed, self.model.base)
        possible = [zxid for zxid, _ in self.model.log if zxid > floor]
        self.add(Truncate(0, self.data.draw(st.sampled_from([floor, *possible]))))

    def install(self) -> None:
        """Install a snapshot at or after the committed zxid, even below the end of the log."""
        last = self.model.last
        zxid = Zxid(self.data.draw(st.sampled_from([self.committed, last, last + 1, last + 7])))
        if epoch_of(zxid) > self.model.accepted or zxid < self.model.base:
            return
        self.add(BeginSnapshot(0, zxid))
        for chunk in self.data.draw(chunks):
            self.add(SnapshotChunk(0, chunk))
        self.add(InstallSnapshot(0, zxid, self.data.draw(st.none() | st.integers(0, 2**32 - 1))))
        self.committed = zxid

    def abort(self) -> None:
        self.add(BeginSnapshot(0, self.model.last))
        self.add(SnapshotChunk(0, b"never mind"))
        self.add(KeepSnapshot(0) if self.data.draw(st.booleans()) else AbortSnapshot(0))


@settings(max_examples=150)
@given(st.data(), st.one_of(layouts, preallocated))
def test_random_writes_with_crashes_against_the_model(data: st.DataObject, layout: StorageSettings) -> None:
    disk = MemoryDisk()
    storage, _ = Storage.open(disk, layout)
    author = Author(data, Model())
    for _ in range(data.draw(st.integers(1, 12), label="groups")):
        before = author.model
        match data.draw(st.sampled_from(["write", "write", "snapshot", "purge", "crash in a write", "close"])):
            case "write":
                storage.perform(author.group())
                assert storage.last == author.model.last
            case "snapshot":
                possible = [zxid for zxid, _ in before.log if zxid >= max([s[0] for s in before.snapshots], default=0)]
                if possible:
                    zxid = data.draw(st.sampled_from(possible))
                    writer = storage.snapshot_writer(zxid, 7)
                    pieces = data.draw(chunks)
                    for piece in pieces:
                        writer.write(piece)
                    writer.finish()
                    storage.purge()
                    kept = tuple(each for each in before.snapshots if each[0] != zxid)
                    author.model = evolve(before, snapshots=kept).with_snapshot(zxid, 7, pieces)
                    author.committed = max(author.committed, zxid)
            case "purge":
                storage.purge(data.draw(st.integers(1, 2)))
            case "close":
                storage.close()
                disk.kill()
                storage, recovered = Storage.open(disk, layout)
                author.model = _settled(check(recovered, storage, [before]), recovered.current)
            case "crash in a write":
                writes = author.group()
                disk.crash_at(disk.changes + data.draw(st.integers(0, 12)))
                legal = legal_after(before, writes)
                try:
                    storage.perform(writes)
                    legal = legal[-1:]
                except Crash:
                    pass
                disk.crash(lambda n: data.draw(st.integers(0, n - 1)))
                storage, recovered = Storage.open(disk, layout)
                found = check(recovered, storage, legal)
                disk.crash()
                storage, again = Storage.open(disk, layout)
                assert again == recovered
                author.model = _settled(found, recovered.current)
                author.committed = max([NOTHING, found.base, *(each[0] for each in found.snapshots)])
            case other:
                raise AssertionError(other)
    disk.crash()
    storage, recovered = Storage.open(disk, layout)
    check(recovered, storage, [author.model])


def _settled(model: Model, current: int) -> Model:
    """Check after a restart that no snapshot is arriving and the current epoch is the recovered one."""
    return evolve(model, current=current, arriving=None)
