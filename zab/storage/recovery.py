"""What a server remembers after any crash, and whether it may vote with it.

Everything is read and checked: each record's sums, its place behind the one before it, the files' order, the
snapshot below and the epochs record above. A torn tail is cut. Damage that the newest sound snapshot makes
irrelevant is noted. Any other damage means that the history may be incomplete: then nothing of it is offered,
nothing on the disk is touched, and the server heals from the others before it votes again.

Recovery changes the disk only in steps that it would take again, so it may crash anywhere itself.
"""

from __future__ import annotations

from typing import Final

from attrs import define, evolve, field

from zab.core.batch import Batch
from zab.core.errors import DamagedError
from zab.core.messages import SnapHeld
from zab.core.plurals import counted
from zab.core.ready import Recovered
from zab.core.zxid import NOTHING, UNKNOWN, Epoch, Zxid, epoch_of, show
from zab.storage import epochs as epochs_file
from zab.storage import install, snapshot_files
from zab.storage.disk import Disk, read_all
from zab.storage.epochs import ASIDE, EpochsFile, EpochsRecord, HistoryStatus
from zab.storage.history_scan import HistoryScan
from zab.storage.segment import FILE_HEAD, PREFIX, Segment, scan
from zab.storage.snapshot_files import INSTALL, SNAPSHOT
from zab.storage.transaction_log import rewrite

REMEDY: Final = f"this server does not vote until a snapshot from the leader has healed it; then files become {ASIDE}*"
"""Behind each line of damage. Who is alone has to look for another one."""


@define
class Recovery:
    """The outcome, and what it takes to go on from there. Without `segments` the log begins anew behind `last`."""

    epochs: EpochsFile
    recovered: Recovered
    newest: Zxid | None = None
    segments: tuple[Segment, ...] = ()
    last: Zxid = UNKNOWN
    end: int = 0
    notes: list[str] = field(factory=list)
    unsound: frozenset[Zxid] = frozenset()
    rotten: tuple[str, ...] = ()


def recover(disk: Disk, autocreate: bool) -> Recovery:
    disk.sync_dir()  # names as they are seen now must stay: whoever wrote them may have died before syncing them
    notes: list[str] = []
    names = _clear_temporary(disk)
    found = _recover(disk, autocreate, names, notes)
    found.recovered = evolve(found.recovered, held=_held(disk))
    return found


def _recover(disk: Disk, autocreate: bool, names: tuple[str, ...], notes: list[str]) -> Recovery:
    if not names:
        return _begin(disk, autocreate)
    try:
        if epochs_file.NAME not in names:
            raise DamagedError(epochs_file.missing(names))
        epochs, found = EpochsFile.read(disk)
        notes += found
    except DamagedError as error:
        record = EpochsRecord(status=HistoryStatus.DAMAGED, forgotten=True)
        epochs = EpochsFile(disk, record, damaged=epochs_file.NAME in names)
        return _distrusted(epochs, notes, [f"{error}; what this server promised is lost"])
    aside = [name for name in names if name.startswith(ASIDE)]
    if aside:
        kept = counted(len(aside), "file")
        notes.append(f"kept from earlier damage: {kept} named {ASIDE}*, to be deleted when you like")
    try:
        _finish_install(disk, epochs, names, notes)
    except DamagedError as error:
        return _distrusted(epochs, notes, [str(error)])
    match epochs.record.status:
        case HistoryStatus.NEVER_INITIALISED:
            notes.append("this server does not vote until a leader gave it the history")
            return Recovery(epochs, _offer_nothing(epochs.record, ()), notes=notes)
        case HistoryStatus.HEALING:
            notes.append("this server was about to be given the history; it does not vote until it has all of it")
            return Recovery(epochs, _offer_nothing(epochs.record, ()), notes=notes)
        case HistoryStatus.DAMAGED:
            return _distrusted(epochs, notes, ["the history was found damaged earlier and is not healed yet"])
        case HistoryStatus.WHOLE:
            return _recover_whole(disk, epochs, notes)


def _recover_whole(disk: Disk, epochs: EpochsFile, notes: list[str]) -> Recovery:
    walk = HistoryScan(disk, epochs.record, notes)
    walk.read()
    if walk.damage:
        return _distrusted(epochs, notes, walk.damage, forgotten=walk.forgotten)
    record, last = epochs.record, walk.last
    end = _settle_tail(walk)
    # It logged transactions of a newer epoch than it adopted: the history before them is complete, or they
    # could not have been logged, so the epoch is adopted and only the crash prevented saying so.
    current = Epoch(max(record.current, epoch_of(last)))
    newest = walk.segments[-1].first if walk.segments else NOTHING
    epochs.save(evolve(record, current=current, reaches=last, segment=newest))
    for name in walk.void:
        disk.delete(name)
    if walk.void:
        disk.sync_dir()
    recovered = Recovered(
        record.accepted,
        current,
        record.ensemble,
        walk.snapshot,
        walk.digest,
        _behind(walk.snapshot, walk.batches),
        walk.start,
        tuple(zxid for zxid in walk.epoch_ends if zxid > walk.start),
        forgotten=record.forgotten,
        committed=record.committed,
    )
    segments, unsound = tuple(walk.segments), frozenset(walk.unsound)
    return Recovery(epochs, recovered, walk.newest, segments, last, end, notes, unsound, tuple(walk.rotten))


# -- the simple endings ------------------------------------------------------------------------------


def _begin(disk: Disk, autocreate: bool) -> Recovery:
    if not autocreate:
        epochs = EpochsFile(disk, EpochsRecord(status=HistoryStatus.NEVER_INITIALISED, forgotten=True))
        notes = ["the directory is empty: this server does not vote until a leader gave it the history"]
        return Recovery(epochs, _offer_nothing(epochs.record, ()), notes=notes)
    epochs = EpochsFile(disk, EpochsRecord())
    epochs.save(EpochsRecord())  # from now on a directory without this record has lost it
    notes = ["the directory is empty: this server begins with an empty history"]
    return Recovery(epochs, Recovered(Epoch(0), Epoch(0)), last=NOTHING, notes=notes)


def _distrusted(epochs: EpochsFile, notes: list[str], damage: list[str], *, forgotten: bool = False) -> Recovery:
    epochs.distrust(forgotten=forgotten)
    lines = tuple(f"{line}; {REMEDY}" for line in damage)
    return Recovery(epochs, _offer_nothing(epochs.record, lines), notes=notes)


def _offer_nothing(record: EpochsRecord, damage: tuple[str, ...]) -> Recovered:
    return Recovered(
        record.accepted,
        record.current,
        record.ensemble,
        voting=False,
        forgotten=record.forgotten,
        damage=damage,
    )


# -- the steps ---------------------------------------------------------------------------------------


def _held(disk: Disk) -> SnapHeld | None:
    """What arrived of a snapshot from a leader. Two files: it was just being written anew to go on, out of PARTIAL."""
    names = disk.list()
    if snapshot_files.INCOMING in names:
        if snapshot_files.PARTIAL in names:
            disk.delete(snapshot_files.INCOMING)
        else:
            disk.rename(snapshot_files.INCOMING, snapshot_files.PARTIAL)
    held = snapshot_files.kept(disk)
    if held is None and snapshot_files.PARTIAL in disk.list():
        disk.delete(snapshot_files.PARTIAL)
    return held


def _clear_temporary(disk: Disk) -> tuple[str, ...]:
    """The names that are ours, without files that were never put in place: those had no effect yet."""
    ours = []
    for name in disk.list():
        if name == epochs_file.NAME or name.startswith((PREFIX, SNAPSHOT, INSTALL, ASIDE)):
            if not name.endswith(".tmp"):
                ours.append(name)
                continue
        elif name != f"{epochs_file.NAME}.tmp":
            continue
        disk.delete(name)
    return tuple(ours)


def _finish_install(disk: Disk, epochs: EpochsFile, names: tuple[str, ...], notes: list[str]) -> None:
    installs = snapshot_files.listed(names, INSTALL)
    if len(installs) > 1:
        raise DamagedError(f"{len(installs)} files named {INSTALL}*, and no telling which of them counts")
    for zxid in installs:
        snapshot_files.verify(disk, f"{INSTALL}{zxid:x}")
        install.finish(disk, epochs, zxid)
        notes.append(f"finished installing the snapshot at {show(zxid)}, which a crash had interrupted")


def _settle_tail(walk: HistoryScan) -> int:
    """Make what was read of the newest file durable, and what was not read gone; the offset where to go on."""
    if walk.tail is None:
        return 0
    disk, (data, found) = walk.disk, walk.tail
    segment = walk.segments[-1]
    if found.end == FILE_HEAD:  # created, but nothing in it counts: the next append may need another name
        walk.segments.pop()
        walk.void.append(segment.name)
        if not walk.segments:
            return 0
        before = walk.segments[-1]
        return scan(read_all(disk, before.name), before, after=walk.last).end
    if walk.torn:
        rewrite(disk, segment, data[: found.end])
    elif walk.last != walk.record.reaches:
        # It may have been read from the cache of a system whose server died before the sync, or whose sync
        # failed. Written anew and synced, it is durable whatever the reason.
        file = disk.open(segment.name)
        try:
            file.write(found.synced, data[found.synced : found.end])
            file.sync()
        finally:
            file.close()
    return found.end


def _behind(snapshot: Zxid, batches: list[Batch]) -> tuple[Batch, ...]:
    """The first one may have its beginning in the snapshot."""
    return tuple(batches) if not batches else (batches[0].after(snapshot), *batches[1:])
