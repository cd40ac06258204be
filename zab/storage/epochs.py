"""The epochs record: promised and adopted epoch, membership, and the extent of the history.

The record is replaced as a whole. Besides the epochs and the active membership it contains the end of the history and
the newest log segment at the time of the write. So recovery notices a missing log file or snapshot, which no checksum
inside a file could show.

No peer can restore a promise, and a server that lost its promises may break them. So the file holds two copies of the
record, and one sound copy is enough.

    file    copy, zeros up to a multiple of 4096, copy, zeros up to a multiple of 4096
    copy    magic 8, version 2, status 1, forgotten 1, accepted 4, current 4, reaches 8, segment 8,
            length of the membership's text 4, text, CRC-32 of all before 4,
            "cmtd" 4, committed 8, CRC-32 of all before 4          (sizes in bytes, big-endian)

Earlier versions wrote zeros instead of the last line, and do not read it.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final
from zlib import crc32

from attrs import evolve

from zab.core.ensemble import Ensemble
from zab.core.errors import DamagedError, LocalProtocolError, ZabError
from zab.core.frozen import frozen
from zab.core.zxid import EPOCH_MAX, NOTHING, Epoch, Zxid
from zab.storage.disk import Disk, DiskFile, other_version, write_atomically

NAME: Final = "epochs"
ASIDE: Final = "damaged."
"""The prefix of damaged files that were moved aside."""

_MAGIC: Final = b"zab.epo\n"
_VERSION: Final = 1
_HEAD: Final = Struct(">8sHBBIIQQI")
_CRC: Final = Struct(">I")
_HINT: Final = Struct(">4sQ")
_HINT_MAGIC: Final = b"cmtd"
_PAGE: Final = 4096


class HistoryStatus(IntEnum):
    """The state of the history on this disk. The server votes only if it is WHOLE.

    NEVER_INITIALISED: the directory was empty, and the settings do not allow the server to begin a history.
    DAMAGED: the history may be incomplete, contradicts the leader's, or was given up.
    HEALING: a leader's snapshot has replaced the lost or missing history, but the leader's epoch is not adopted yet.
    Transactions after the snapshot may have been acknowledged before the history was lost, so a server that restarts
    in this state must not vote.
    """

    WHOLE = 0
    NEVER_INITIALISED = 1
    DAMAGED = 2
    HEALING = 3


@frozen
class EpochsRecord:
    """The content of the epochs file."""

    accepted: Epoch = Epoch(0)
    """The newest epoch that this server promised to follow; at least `current`."""
    current: Epoch = Epoch(0)
    """The newest epoch whose initial history this server has adopted."""
    ensemble: Ensemble | None = None
    """The membership in force; None before the first one."""
    status: HistoryStatus = HistoryStatus.WHOLE
    forgotten: bool = False
    """True if this server may have made promises that this record lacks."""
    reaches: Zxid = NOTHING
    """The history was durable up to here when the record was written."""
    segment: Zxid = NOTHING
    """The first zxid of the newest log segment, or NOTHING."""
    committed: Zxid = NOTHING
    """Everything up to this zxid was known to be committed; at most `reaches`.

    This zxid may lag far behind. If the history ends before this zxid, committed transactions were lost.
    """


def missing(names: tuple[str, ...]) -> str:
    """Describe the damage of a directory that has these files, but no epochs record."""
    return f"{NAME}: missing, although there is {names[0]}"


def encode(record: EpochsRecord) -> bytes:
    text = b"" if record.ensemble is None else record.ensemble.text().encode()
    head = _HEAD.pack(
        _MAGIC,
        _VERSION,
        record.status,
        record.forgotten,
        record.accepted,
        record.current,
        record.reaches,
        record.segment,
        len(text),
    )
    copy = head + text
    copy += _CRC.pack(crc32(copy))
    copy += _HINT.pack(_HINT_MAGIC, record.committed)
    copy += _CRC.pack(crc32(copy))
    return (copy + bytes(-len(copy) % _PAGE)) * 2


def middle(size: int) -> int:
    """Return the offset of the second copy, even if less than two pages are missing at the end of the file."""
    return -(-size // (2 * _PAGE)) * _PAGE


def decode(first: bytes | str, second: bytes | str) -> tuple[EpochsRecord, tuple[str, ...]]:
    """Return the record, and a note for each damaged copy.

    Each argument is the bytes of a copy, or the reason why the copy could not be read. Raise `DamagedError` if no copy
    is sound, or two sound copies differ in more than the committed zxid. Raise `StorageError` if a copy is of another
    format version.
    """
    copies = [first if isinstance(first, str) else _decode_copy(first)]
    copies += copies if first == second else [second if isinstance(second, str) else _decode_copy(second)]
    good = [copy for copy in copies if isinstance(copy, EpochsRecord)]
    if not good:
        raise DamagedError(f"{NAME}: both copies are damaged: {copies[0]}; {copies[1]}")
    if len(good) == 2 and good[0].committed != good[1].committed:
        # Damage has zeroed the committed zxid of one copy, which then looks like a copy of an earlier version. The
        # committed zxid of the other copy was true when the record was written.
        good = [evolve(copy, committed=max(each.committed for each in good)) for copy in good]
    if len(good) == 2 and good[0] != good[1]:
        raise DamagedError(f"{NAME}: the two copies are sound but differ")
    notes = [
        f"{NAME}: {which} copy: {copy}; the other copy is sound and was used"
        for which, copy in zip(("first", "second"), copies, strict=True)
        if isinstance(copy, str)
    ]
    return good[0], tuple(notes)


def _decode_copy(data: bytes) -> EpochsRecord | str:
    end = _HEAD.size
    if len(data) < end + _CRC.size:
        return "too short"
    magic, version, status, forgotten, accepted, current, reaches, segment, length = _HEAD.unpack_from(data)
    end += length
    if len(data) < end + _CRC.size or crc32(data[:end]) != _CRC.unpack_from(data, end)[0]:
        return "the checksum is wrong"
    if magic != _MAGIC:
        return f"{magic!r} is not the start of an epochs record"
    if version != _VERSION:
        raise other_version(NAME, version, _VERSION)
    committed = _decode_hint(data, end + _CRC.size)
    if committed is None:
        return "the checksum of the committed zxid is wrong"
    try:
        ensemble = Ensemble.parse(data[end - length : end].decode()) if length else None
        return EpochsRecord(
            Epoch(accepted),
            Epoch(current),
            ensemble,
            HistoryStatus(status),
            bool(forgotten),
            Zxid(reaches),
            Zxid(segment),
            committed,
        )
    except (ValueError, ZabError) as error:
        return f"a field is invalid: {error}"


def _decode_hint(data: bytes, start: int) -> Zxid | None:
    end = start + _HINT.size
    if not any(data[start : end + _CRC.size]):
        return NOTHING  # written by an earlier version
    if len(data) < end + _CRC.size or crc32(data[:end]) != _CRC.unpack_from(data, end)[0]:
        return None
    return Zxid(_HINT.unpack_from(data, start)[1])


def _read(file: DiskFile, offset: int, length: int) -> bytes | str:
    try:
        return file.read(offset, length)
    except DamagedError as error:
        return str(error)


class EpochsFile:
    """The epochs record on the disk, and the only way to change it."""

    def __init__(self, disk: Disk, record: EpochsRecord, *, damaged: bool = False) -> None:
        self.record = record
        """The record in force. It is durable, unless `distrust` has marked it or recovery has made it for a directory
        without a readable record. Then the next `save` makes it durable.
        """
        self.committed = record.committed
        """The committed zxid for the next record. A driver may raise it at any time, in any thread."""
        self._disk = disk
        self._damaged = damaged
        """True while the file on the disk exists but holds no usable record: the next `save` moves the file aside."""
        self._saved: EpochsRecord | None = None
        """The record that both copies on the disk hold; None if the next `save` must write the file in any case."""

    @classmethod
    def read(cls, disk: Disk) -> tuple[EpochsFile, tuple[str, ...]]:
        file = disk.open(NAME)
        try:
            size = file.size()
            half = middle(size)
            record, notes = decode(_read(file, 0, half), _read(file, half, size - half))
        finally:
            file.close()
        if record.current > record.accepted:
            raise DamagedError(f"{NAME}: current epoch {record.current} is newer than the accepted {record.accepted}")
        epochs = cls(disk, record)
        epochs._saved = None if notes else record  # the next `save` replaces a damaged copy
        return epochs, notes

    def distrust(self, *, forgotten: bool) -> None:
        """Mark the history as DAMAGED in `record` if it was WHOLE; with `forgotten`, mark promises as lost, too."""
        status = self.record.status
        if status is HistoryStatus.WHOLE:
            status = HistoryStatus.DAMAGED
        self.record = evolve(self.record, status=status, forgotten=self.record.forgotten or forgotten)

    def save(self, record: EpochsRecord) -> None:
        """Replace the record. On return it is durable. Nothing is written if nothing changed.

        The committed zxid is taken from `self.committed`, not from the argument. `self.record` changes last, so that a
        promise that could not be saved is not in it.
        """
        record = evolve(record, committed=min(self.committed, record.reaches))
        if record == self._saved:
            return
        old = self.record
        if not 0 <= record.current <= record.accepted <= EPOCH_MAX:
            raise LocalProtocolError(
                f"current epoch {record.current} and accepted epoch {record.accepted}, but "
                f"0 <= current <= accepted <= {EPOCH_MAX} is required"
            )
        if record.accepted < old.accepted or record.current < old.current:
            raise LocalProtocolError(
                f"epochs never decrease: accepted {old.accepted} to {record.accepted}, "
                f"current {old.current} to {record.current}"
            )
        if self._damaged:  # keep the damaged file as evidence
            self._disk.rename(NAME, ASIDE + NAME)
            self._damaged = False
        write_atomically(self._disk, NAME, encode(record))
        self.record = self._saved = record

    def note(self, reaches: Zxid, segment: Zxid) -> None:
        """Save the extent of the history and the committed zxid; everything else in the record stays."""
        old = self.record
        self.save(EpochsRecord(old.accepted, old.current, old.ensemble, old.status, old.forgotten, reaches, segment))
