"""A simple model of a disk's memory: one list of transactions and a few numbers.

Every test of crashes, damage and random writes compares the recovered state with a model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from attrs import evolve, frozen

from zab.core.batch import Batch, digest_of, pack
from zab.core.ensemble import Ensemble
from zab.core.ready import (
    AbortSnapshot,
    Append,
    BeginSnapshot,
    InstallSnapshot,
    KeepSnapshot,
    Recovered,
    ResumeSnapshot,
    SaveEpochs,
    SnapshotChunk,
    Truncate,
    Write,
)
from zab.core.zxid import NOTHING, Epoch, Zxid, epoch_of, make
from zab.storage.disk import Disk
from zab.storage.storage import Storage, StorageSettings

ENSEMBLE: Final = Ensemble.parse("server.1=one:2888:3888,server.2=two:2888:3888,server.3=three:2888:3888")
TINY: Final = StorageSettings(segment_bytes=600, preallocate=False, snapshots_kept=2)
PREALLOCATED: Final = StorageSettings(segment_bytes=1400, preallocate=True, snapshots_kept=2)


def z(text: str) -> Zxid:
    epoch, counter = text.split("/")
    return make(int(epoch), int(counter))


def batch(first: str, *payloads: bytes, config: bool = False) -> Batch:
    return pack(z(first), payloads, config)


def epochs(accepted: int, current: int, *, whole: bool = True, forgotten: bool = False) -> SaveEpochs:
    return SaveEpochs(0, Epoch(accepted), Epoch(current), ENSEMBLE, whole, forgotten)


def append(first: str, *payloads: bytes) -> Append:
    return Append(0, batch(first, *payloads))


def snapshot_writes(at: str, digest: int | None, *chunks: bytes) -> list[Write]:
    return [
        BeginSnapshot(0, z(at)),
        *(SnapshotChunk(0, chunk) for chunk in chunks),
        InstallSnapshot(0, z(at), digest),
    ]


Entry = tuple[Zxid, bytes]


def entries_of(batches: Iterable[Batch]) -> list[Entry]:
    return [(Zxid(each.first + index), payload) for each in batches for index, payload in enumerate(each.payloads())]


@frozen
class Model:
    """`base` is where the history begins; `snapshots` maps zxid to (digest, chunks); `log` is all behind `base`."""

    accepted: int = 0
    current: int = 0
    ensemble: Ensemble | None = None
    whole: bool = True
    forgotten: bool = False
    base: Zxid = NOTHING
    log: tuple[Entry, ...] = ()
    snapshots: tuple[tuple[Zxid, int | None, tuple[bytes, ...]], ...] = ()
    arriving: tuple[Zxid, tuple[bytes, ...]] | None = None

    @property
    def last(self) -> Zxid:
        return self.log[-1][0] if self.log else self.base

    def after(self, write: Write) -> Model:
        match write:
            case SaveEpochs():
                return evolve(
                    self,
                    accepted=write.accepted,
                    current=write.current,
                    ensemble=write.ensemble,
                    whole=write.whole,
                    forgotten=write.forgotten,
                )
            case Append(batch=added):
                return evolve(self, log=(*self.log, *entries_of([added])))
            case Truncate(zxid=zxid):
                return evolve(self, log=tuple(entry for entry in self.log if entry[0] <= zxid))
            case BeginSnapshot(zxid=zxid):
                return evolve(self, arriving=(zxid, ()))
            case SnapshotChunk(data=data):
                assert self.arriving is not None
                return evolve(self, arriving=(self.arriving[0], (*self.arriving[1], data)))
            case AbortSnapshot() | KeepSnapshot():
                return evolve(self, arriving=None)
            case ResumeSnapshot():
                raise AssertionError("what was kept is the matter of test_partial_snapshots")
            case InstallSnapshot(zxid=zxid, digest=digest):
                assert self.arriving is not None
                installed = (zxid, digest, self.arriving[1])
                return evolve(self, base=zxid, log=(), snapshots=(installed,), arriving=None)

    def with_snapshot(self, zxid: Zxid, digest: int | None, chunks: Sequence[bytes]) -> Model:
        return evolve(self, snapshots=(*self.snapshots, (zxid, digest, tuple(chunks))))


def legal_after(before: Model, writes: Sequence[Write]) -> list[Model]:
    """Everything that a crash during these writes may leave, oldest first."""
    states = [before]
    for write in writes:
        model, following = states[-1], states[-1].after(write)
        if type(write) is Truncate:  # which may get part of the way
            lengths = range(len(model.log) - 1, len(following.log), -1)
            states += [evolve(model, log=model.log[:length]) for length in lengths]
        states.append(following)
    return states


def differences(model: Model, recovered: Recovered, storage: Storage) -> list[str]:
    """Return the differences of the recovered state from this model."""
    found: list[str] = []

    def expect(what: str, is_: object, should: object) -> None:
        if is_ != should:
            found.append(f"{what}: {is_!r} instead of {should!r}")

    expect("accepted", recovered.accepted, model.accepted)
    expect("ensemble", recovered.ensemble, model.ensemble)
    expect("forgotten", recovered.forgotten, model.forgotten)
    expect("voting", recovered.voting, model.whole)
    if not model.whole:
        expect("current", recovered.current, model.current)
        expect("batches", recovered.batches, ())
        return found
    expect("damage", recovered.damage, ())
    expect("current", recovered.current, max(model.current, epoch_of(model.last)))
    expect("last", storage.last, model.last)
    snapshots = {zxid: (digest, chunks) for zxid, digest, chunks in model.snapshots}
    newest = max(snapshots, default=NOTHING)
    expect("snapshot", recovered.snapshot, newest)
    expect("newest_snapshot", storage.newest_snapshot, newest if snapshots else None)
    expect("batches", entries_of(recovered.batches), [entry for entry in model.log if entry[0] > newest])
    if found:
        return found
    if snapshots:
        expect("digest", recovered.digest, snapshots[newest][0])
        expect("chunks", tuple(storage.read_snapshot(newest)), snapshots[newest][1])
    expect("log_start", recovered.log_start, storage.log_start)
    expect("log_start is at or before the snapshot", recovered.log_start <= newest, True)
    on_disk = [entry for entry in model.log if entry[0] > recovered.log_start]
    expect("read_log", entries_of(storage.read_log(recovered.log_start, storage.last)), on_disk)
    ends: dict[int, Zxid] = {}
    for zxid, _payload in on_disk:
        if zxid <= newest:
            ends[epoch_of(zxid)] = zxid
    expect("epoch_ends", recovered.epoch_ends, tuple(ends.values()))
    return found


def check(recovered: Recovered, storage: Storage, legal: Sequence[Model]) -> Model:
    """The newest legal state that was recovered."""
    reasons = []
    for model in reversed(legal):
        found = differences(model, recovered, storage)
        if not found:
            return model
        reasons.append("; ".join(found))
    text = "\n  ".join(dict.fromkeys(reasons))
    raise AssertionError(f"recovered {recovered}, notes {storage.notes}; this is no legal state:\n  {text}")


Step = tuple[str, Callable[[Storage], None], Callable[[Model], Sequence[Model]]]
"""A name, what is done, and the legal states from before it to after it, of which the last is the outcome."""


def writing(*writes: Write) -> Step:
    name = ", ".join(type(write).__name__ for write in writes)
    return name, lambda storage: storage.perform(writes), lambda model: legal_after(model, writes)


def local_snapshot(at: str, *chunks: bytes) -> Step:
    zxid = z(at)

    def act(storage: Storage) -> None:
        writer = storage.snapshot_writer(zxid, zxid & 0xFFFF)
        for chunk in chunks:
            writer.write(chunk)
        writer.finish()

    return f"snapshot at {at}", act, lambda model: [model, model.with_snapshot(zxid, zxid & 0xFFFF, chunks)]


def purging(keep: int) -> Step:
    def act(storage: Storage) -> None:
        storage.purge(keep)

    return f"purge, keep {keep}", act, lambda model: [model]


def run_steps(disk: Disk, settings: StorageSettings, steps: Sequence[Step], reached: list[Sequence[Model]]) -> Storage:
    """Do it all. `reached` holds the legal states of the step that was begun last, whatever ends this early."""
    reached.append([Model()])
    storage, _recovered = Storage.open(disk, settings)
    for _name, act, legal in steps:
        reached.append(legal(reached[-1][-1]))
        act(storage)
        reached.append([reached[-1][-1]])
    return storage


def history_digest(log: Iterable[Entry]) -> int:
    return digest_of((payload for _zxid, payload in log), 0)
