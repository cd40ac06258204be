"""Recovery: read everything on the disk, and decide whether the server may vote with it.

Recovery checks each record's checksums and predecessor, the order of the files, the snapshot and the epochs record. It
cuts off a torn tail. It only notes damage to one copy of the epochs record, to files that the newest sound snapshot
replaces, and to newer snapshots if the log after that snapshot is complete. Any other damage means that the history may
be incomplete: recovery then offers no history and leaves the damaged files as they are, and the server votes again only
when a leader has sent it a snapshot.

If a crash interrupts recovery, the next recovery repeats the changes.
"""

from __future__ import annotations

from typing import Final

from attrs import define, evolve, field

from zab.core.batch import Batch
from zab.core.ensemble import Ensemble
from zab.core.errors import DamagedError
from zab.core.messages import SnapHeld
from zab.core.plurals import counted
from zab.core.ready import Recovered
from zab.core.zxid import NOTHING, UNKNOWN, Epoch, ServerId, Zxid, epoch_of, show
from zab.storage import epochs as epochs_file
from zab.storage import install, snapshot_files
from zab.storage.disk import Disk, read_all
from zab.storage.epochs import ASIDE, EpochsFile, EpochsRecord, HistoryStatus
from zab.storage.history_scan import HistoryScan
from zab.storage.segment import FILE_HEAD, PREFIX, Segment, scan
from zab.storage.snapshot_files import INSTALL, SNAPSHOT
from zab.storage.transaction_log import rewrite

REMEDY: Final = (
    f"this server does not vote until a snapshot from the leader has replaced its history; its files become {ASIDE}*"
)
"""The remedy, appended to each line of damage. It does not help a single server, whose operator needs a backup."""


@define
class Recovery:
    """The outcome of recovery: everything that `Storage` needs to continue.

    epochs     the epochs record in force
    recovered  the start state of the core
    newest     the newest sound snapshot, or None
    segments   the files of the log, oldest first; if there are none, the log continues after `last`
    last       the end of the history; UNKNOWN if it may be incomplete
    end        the offset after the last record of the newest file
    notes      findings and actions, each the text of a log message
    unsound    the zxids of damaged snapshots
    rotten     the notes about damage to files that are not needed
    """

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
    """Recover a directory. With `autocreate` an empty directory is the beginning of a history."""
    disk.sync_dir()  # make the present names durable: the process that wrote them may not have synced them
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
        return _distrusted(epochs, notes, [f"{error}; this server's promises are lost"])
    aside = [name for name in names if name.startswith(ASIDE)]
    if aside:
        kept = counted(len(aside), "file")
        notes.append(f"kept from earlier damage: {kept} named {ASIDE}*; the server does not need them")
    try:
        _finish_install(disk, epochs, names, notes)
    except DamagedError as error:
        return _distrusted(epochs, notes, [str(error)])
    match epochs.record.status:
        case HistoryStatus.NEVER_INITIALISED:
            notes.append("this server does not vote until a leader has sent it the history")
            return Recovery(epochs, _offer_nothing(epochs.record, ()), notes=notes)
        case HistoryStatus.HEALING:
            notes.append("the transfer of the history was interrupted; this server does not vote until it is complete")
            return Recovery(epochs, _offer_nothing(epochs.record, ()), notes=notes)
        case HistoryStatus.DAMAGED:
            return _distrusted(
                epochs, notes, ["the history was damaged or given up earlier, and no snapshot has replaced it yet"]
            )
        case HistoryStatus.WHOLE:
            return _recover_whole(disk, epochs, notes)


def _recover_whole(disk: Disk, epochs: EpochsFile, notes: list[str]) -> Recovery:
    walk = HistoryScan(disk, epochs.record, notes)
    walk.read()
    if walk.damage:
        return _distrusted(epochs, notes, walk.damage, forgotten=walk.forgotten)
    record, last = epochs.record, walk.last
    end = _settle_tail(walk)
    # The log may hold transactions of a newer epoch than the adopted one. They follow the complete initial history of
    # that epoch. So the epoch counts as adopted, even if a crash came before its adoption was saved.
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


# -- directories without a usable history ------------------------------------------------------------


def _begin(disk: Disk, autocreate: bool) -> Recovery:
    if not autocreate:
        epochs = EpochsFile(disk, EpochsRecord(status=HistoryStatus.NEVER_INITIALISED, forgotten=True))
        notes = ["the directory holds no history: this server does not vote until a leader has sent it the history"]
        return Recovery(epochs, _offer_nothing(epochs.record, ()), notes=notes)
    epochs = EpochsFile(disk, EpochsRecord())
    epochs.save(EpochsRecord())  # from now on, a missing record means that it was lost
    notes = ["the directory holds no history: this server begins with an empty history"]
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
    """Keep an interrupted snapshot of a leader as PARTIAL. Return its sound part; None without one.

    An INCOMING that a crash left becomes PARTIAL. If PARTIAL exists already, INCOMING may be an unfinished copy of it,
    and is deleted. A PARTIAL that is a complete snapshot or has no sound chunk is deleted, too.
    """
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
    """Delete temporary files, except INCOMING and PARTIAL. Return the names of the store's permanent files."""
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
        raise DamagedError(f"{len(installs)} files named {INSTALL}*: only one of them can be valid")
    for zxid in installs:
        snapshot_files.verify(disk, f"{INSTALL}{zxid:x}")
        install.finish(disk, epochs, zxid)
        notes.append(f"finished installing the snapshot at {show(zxid)}, which a crash had interrupted")


def _settle_tail(walk: HistoryScan) -> int:
    """Make the sound part of the newest file durable, cut off a torn tail, and return the offset for the next record.

    A newest file without a sound record is dropped. Then the offset is in the file before it, or 0 without one.
    """
    if walk.tail is None:
        return 0
    disk, (data, found) = walk.disk, walk.tail
    segment = walk.segments[-1]
    if found.end == FILE_HEAD:  # no sound record: the next append may need another name
        walk.segments.pop()
        walk.void.append(segment.name)
        if not walk.segments:
            return 0
        before = walk.segments[-1]
        return scan(read_all(disk, before.name), before, after=walk.last).end
    if walk.torn:
        rewrite(disk, segment, data[: found.end])
    elif walk.last != walk.record.reaches:
        # These bytes may be in the system's cache only, if the server died before the sync, or the sync failed. Write
        # and sync them again to make them durable.
        file = disk.open(segment.name)
        try:
            file.write(found.synced, data[found.synced : found.end])
            file.sync()
        finally:
            file.close()
    return found.end


def _behind(snapshot: Zxid, batches: list[Batch]) -> tuple[Batch, ...]:
    """Return the batches, without those transactions of the first one that the snapshot contains."""
    return tuple(batches) if not batches else (batches[0].after(snapshot), *batches[1:])


def check_curable(recovered: Recovered, given: Ensemble, me: ServerId, path: object) -> None:
    """Raise `DamagedError` if the history may be incomplete and this is the only voter: no server can send a snapshot.

    `given` is the membership that the server was started with; a later one on the disk takes precedence.
    """
    saved = recovered.ensemble
    ensemble = saved if saved is not None and saved.version > given.version else given
    if recovered.voting or set(ensemble.voters) - {me}:
        return
    what = (
        "the directory holds no complete history: it was empty and autocreate is False (`db.autocreate` in zoo.cfg), "
        "or the transfer of a leader's snapshot was interrupted"
    )
    how = ""
    if recovered.damage:
        what = "; ".join(line.removesuffix(f"; {REMEDY}") for line in recovered.damage)
        how = f"save the consistent part of a store with `zab log repair {path} NEW_DIRECTORY`, "
    raise DamagedError(
        f"{path}: {what}. Server {me} is the only voter, so no other server can send it a snapshot: "
        f"{how}restore the directory from a copy, or start again with an empty one and with autocreate"
    )
