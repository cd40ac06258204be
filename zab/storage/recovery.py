"""What a server remembers after any crash, and whether it may vote with it.

Everything is read and checked: each record's sums, its place behind the one before it, the files' order, the
snapshot below and the epochs record above. A torn tail is cut. Damage that the newest sound snapshot makes
irrelevant is noted. Any other damage means that the history may be incomplete: then nothing of it is offered,
nothing on the disk is touched, and the server heals from the others before it votes again.

Recovery changes the disk only in steps that it would take again, so it may crash anywhere itself.
"""

from __future__ import annotations

from attrs import define, evolve, field

from zab.core.batch import Batch
from zab.core.errors import DamagedError
from zab.core.ready import Recovered
from zab.core.zxid import NOTHING, UNKNOWN, Epoch, Zxid, epoch_of, show
from zab.storage import epochs as epochs_file
from zab.storage import install, snapshots
from zab.storage.disk import Disk, read_all
from zab.storage.epochs import ASIDE, EpochsFile, Record, Standing
from zab.storage.log import rewrite
from zab.storage.segment import FILE_HEAD, PREFIX, Scan, Segment, decode_segment, name_of, scan
from zab.storage.snapshots import INSTALL, SNAPSHOT
from zab.storage.torn import contradiction


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


def recover(disk: Disk, autocreate: bool) -> Recovery:
    disk.sync_dir()  # names as they are seen now must stay: whoever wrote them may have died before syncing them
    notes: list[str] = []
    names = _clear_temporary(disk)
    if not names:
        return _begin(disk, autocreate)
    try:
        if epochs_file.NAME not in names:
            raise DamagedError(f"{epochs_file.NAME}: missing, but there is {names[0]}")
        epochs, found = EpochsFile.read(disk)
        notes += found
    except DamagedError as error:
        record = Record(standing=Standing.DAMAGED, forgotten=True)
        epochs = EpochsFile(disk, record, damaged=epochs_file.NAME in names)
        return _distrusted(epochs, notes, [f"{error}; what this server promised is lost"])
    aside = [name for name in names if name.startswith(ASIDE)]
    if aside:
        notes.append(f"{len(aside)} files named {ASIDE}* are kept from earlier damage; delete them when you like")
    try:
        _finish_install(disk, epochs, names, notes)
    except DamagedError as error:
        return _distrusted(epochs, notes, [str(error)])
    match epochs.record.standing:
        case Standing.NEVER_INITIALISED:
            notes.append("this server does not vote until a leader gave it the history")
            return Recovery(epochs, _offer_nothing(epochs.record, ()), notes=notes)
        case Standing.HEALING:
            notes.append("this server was about to be given the history; it does not vote until it has all of it")
            return Recovery(epochs, _offer_nothing(epochs.record, ()), notes=notes)
        case Standing.DAMAGED:
            return _distrusted(epochs, notes, ["the history was found damaged earlier and is not healed yet"])
        case Standing.WHOLE:
            return _recover_whole(disk, epochs, notes)


def _recover_whole(disk: Disk, epochs: EpochsFile, notes: list[str]) -> Recovery:
    walk = _Walk(disk, epochs, notes)
    walk.read_snapshots()
    walk.read_log()
    walk.check()
    return walk.conclude()


# -- the simple endings ------------------------------------------------------------------------------


def _begin(disk: Disk, autocreate: bool) -> Recovery:
    if not autocreate:
        epochs = EpochsFile(disk, Record(standing=Standing.NEVER_INITIALISED, forgotten=True))
        notes = ["the directory is empty: this server does not vote until a leader gave it the history"]
        return Recovery(epochs, _offer_nothing(epochs.record, ()), notes=notes)
    epochs = EpochsFile(disk, Record())
    epochs.save(Record())  # from now on a directory without this record has lost it
    notes = ["the directory is empty: this server begins with an empty history"]
    return Recovery(epochs, Recovered(Epoch(0), Epoch(0)), last=NOTHING, notes=notes)


def _distrusted(epochs: EpochsFile, notes: list[str], damage: list[str], *, forgotten: bool = False) -> Recovery:
    epochs.distrust(forgotten=forgotten)
    remedy = f"this server does not vote until a snapshot from the leader has healed it; then files become {ASIDE}*"
    lines = tuple(f"{line}; {remedy}" for line in damage)
    return Recovery(epochs, _offer_nothing(epochs.record, lines), notes=notes)


def _offer_nothing(record: Record, damage: tuple[str, ...]) -> Recovered:
    return Recovered(
        record.accepted,
        record.current,
        record.ensemble,
        voting=False,
        forgotten=record.forgotten,
        damage=damage,
    )


# -- the steps ---------------------------------------------------------------------------------------


def _clear_temporary(disk: Disk) -> tuple[str, ...]:
    """The names that are ours, without files that were never put in place: those had no effect yet."""
    ours = []
    for name in disk.list():
        if name == epochs_file.NAME or name.startswith((PREFIX, SNAPSHOT, INSTALL, ASIDE)):
            if not name.endswith(".tmp"):
                ours.append(name)
                continue
        elif name not in (snapshots.INCOMING, f"{epochs_file.NAME}.tmp"):
            continue
        disk.delete(name)
    return tuple(ours)


def _finish_install(disk: Disk, epochs: EpochsFile, names: tuple[str, ...], notes: list[str]) -> None:
    installs = snapshots.listed(names, INSTALL)
    if len(installs) > 1:
        raise DamagedError(f"{len(installs)} files named {INSTALL}*, and no telling which of them counts")
    for zxid in installs:
        snapshots.verify(disk, f"{INSTALL}{zxid:x}")
        install.finish(disk, epochs, zxid)
        notes.append(f"finished installing the snapshot at {show(zxid)}, which a crash had interrupted")


@define
class _Walk:
    """Up through the snapshots, then along the log. Reads only; what is to be changed waits for `conclude`."""

    disk: Disk
    epochs: EpochsFile
    notes: list[str]
    damage: list[str] = field(factory=list)
    snapshot: Zxid = NOTHING
    newest: Zxid | None = None
    digest: int = 0
    unsound: list[Zxid] = field(factory=list)
    start: Zxid = NOTHING
    last: Zxid = NOTHING
    batches: list[Batch] = field(factory=list)
    epoch_ends: list[Zxid] = field(factory=list)
    segments: list[Segment] = field(factory=list)
    void: list[str] = field(factory=list)
    tail: tuple[bytes, Scan] | None = None
    torn: bool = False
    forgotten: bool = False

    def read_snapshots(self) -> None:
        """The newest sound one."""
        for zxid in snapshots.listed(self.disk.list(), SNAPSHOT):
            try:
                self.digest = snapshots.verify(self.disk, snapshots.name_of(zxid))
            except DamagedError as error:
                self.notes.append(str(error))
                self.unsound.append(zxid)
                continue
            self.snapshot, self.newest = zxid, zxid
            break
        self.start = self.last = self.snapshot

    def read_log(self) -> None:
        newest = self.epochs.record.segment
        firsts = sorted(snapshots.listed(self.disk.list(), PREFIX))
        known = [first for first in firsts if first <= newest]
        if newest and newest not in known:
            self.damage.append(f"{name_of(newest)}: missing, but it was the newest log")
        gap: str | None = None
        for first in known:
            name = name_of(first)
            try:
                data = read_all(self.disk, name)
                segment = decode_segment(name, data)
            except DamagedError as error:
                gap = gap or str(error)
                continue
            if not self._join(segment, gap):
                return
            found = scan(data, segment, after=self.snapshot)
            gap = self._take(segment, data, found, is_last=first == newest)
        if gap is not None:
            self.damage.append(gap)
        for first in firsts[len(known) :]:
            self._try_unannounced(first)

    def _try_unannounced(self, first: Zxid) -> None:
        """A file newer than the record knows of: never used, or about to be truncated away. Nobody relies on it.

        Still, what continues the history without a flaw is kept: on a disk that lies it may have been relied on.
        """
        name = name_of(first)
        if not self.void and not self.torn:
            try:
                data = read_all(self.disk, name)
                segment = decode_segment(name, data)
            except DamagedError:
                pass
            else:
                found = scan(data, segment, after=self.snapshot)
                if segment.previous == self.last and found.end > FILE_HEAD and found.trouble is None:
                    self._take(segment, data, found, is_last=True)
                    return
        self.void.append(name)

    def _join(self, segment: Segment, gap: str | None) -> bool:
        """Whether this file continues the history so far, or begins where the snapshot makes up for what is missing."""
        if self.segments and gap is None and segment.previous == self.last:
            return True
        if segment.previous > self.snapshot or self.batches:
            missing = f"{segment.name}: offset 0: it begins behind {show(segment.previous)}, the history before ends at"
            self.damage.append(f"{gap + '; ' if gap else ''}{missing} {show(self.last)}")
            return False
        if self.segments or gap is not None:
            why = gap or f"{segment.name}: offset 0: the log in front of it ends at {show(self.last)}"
            self.notes.append(f"{why}; not needed, as the snapshot at {show(self.snapshot)} lies behind it")
        self.start = self.last = segment.previous
        self.segments.clear()
        self.epoch_ends.clear()
        return True

    def _take(self, segment: Segment, data: bytes, found: Scan, is_last: bool) -> str | None:
        self.segments.append(segment)
        self.batches += found.batches
        if self.epoch_ends and found.epoch_ends and epoch_of(self.epoch_ends[-1]) == epoch_of(found.epoch_ends[0]):
            self.epoch_ends.pop()
        self.epoch_ends += found.epoch_ends
        self.last = found.last
        for offset, reaches in found.skipped:
            self.start = reaches
            self.notes.append(
                f"{segment.name}: offset {offset}: the checksum is wrong; not needed, as it ends at {show(reaches)} "
                f"and the snapshot at {show(self.snapshot)} lies behind it"
            )
        if is_last:
            self.tail = data, found
        if found.trouble is None:
            return None
        where = f"{segment.name}: offset {found.end}: {found.trouble}"
        if not is_last:
            return where
        why_not = "no crash puts it there" if found.misplaced else contradiction(data, segment, found.end, found.last)
        if why_not is not None:
            return f"{where}; {why_not}"
        self.torn = True
        self.notes.append(f"{where}; torn by a crash before it was durable, so it is cut off behind {show(found.last)}")
        return None

    def check(self) -> None:
        """Whether the pieces, each sound by itself, add up to a whole history."""
        if self.damage:
            return
        record = self.epochs.record
        if self.last < self.snapshot:
            self.damage.append(f"the log ends at {show(self.last)}, before the snapshot at {show(self.snapshot)}")
        for zxid in self.unsound:
            if zxid > self.last:
                self.damage.append(f"{snapshots.name_of(zxid)}: damaged, and the log does not reach as far")
        if self.last < record.reaches:
            self.damage.append(f"the history ends at {show(self.last)}, but reached {show(record.reaches)} before")
        if epoch_of(self.last) > record.accepted:
            self.damage.append(f"the history ends at {show(self.last)}, but only epoch {record.accepted} was accepted")
            self.forgotten = True  # the record is an old one: who knows what was promised since

    def conclude(self) -> Recovery:
        if self.damage:
            return _distrusted(self.epochs, self.notes, self.damage, forgotten=self.forgotten)
        record = self.epochs.record
        end = self._settle_tail()
        # It logged transactions of a newer epoch than it adopted: the history before them is complete, or they
        # could not have been logged, so the epoch is adopted and only the crash prevented saying so.
        current = max(record.current, epoch_of(self.last))
        newest = self.segments[-1].first if self.segments else NOTHING
        self.epochs.save(evolve(record, current=current, reaches=self.last, segment=newest))
        for name in self.void:
            self.disk.delete(name)
        if self.void:
            self.disk.sync_dir()
        if self.batches:
            self.batches[0] = self.batches[0].after(self.snapshot)
        recovered = Recovered(
            record.accepted,
            Epoch(current),
            record.ensemble,
            self.snapshot,
            self.digest,
            tuple(self.batches),
            self.start,
            tuple(zxid for zxid in self.epoch_ends if zxid > self.start),
            forgotten=record.forgotten,
        )
        return Recovery(
            self.epochs,
            recovered,
            self.newest,
            tuple(self.segments),
            self.last,
            end,
            self.notes,
            frozenset(self.unsound),
        )

    def _settle_tail(self) -> int:
        """Make what was read of the newest file durable, and what was not read gone; the offset where to go on."""
        if not self.segments or self.tail is None:
            return 0
        data, found = self.tail
        segment = self.segments[-1]
        if found.end == FILE_HEAD:  # created, but nothing in it counts: the next append may need another name
            self.segments.pop()
            self.void.append(segment.name)
            if not self.segments:
                return 0
            before = self.segments[-1]
            return scan(read_all(self.disk, before.name), before, after=self.last).end
        if self.torn:
            rewrite(self.disk, segment, data[: found.end])
        elif self.last != self.epochs.record.reaches:
            # It may have been read from the cache of a system whose server died before the sync, or whose sync
            # failed. Written anew and synced, it is durable whatever the reason.
            file = self.disk.open(segment.name)
            try:
                file.write(found.synced, data[found.synced : found.end])
                file.sync()
            finally:
                file.close()
        return found.end
