"""The one record that is replaced, never appended to: promises, membership, and where the history must be.

It is the root of everything else on the disk. Besides the epochs and the active membership it says how far
the history reached when the record was written and which log segment was the newest, so that a log or a
snapshot that has vanished as a whole is missed, which no checksum inside a vanished file could tell.

The promises are the one thing that no peer can give back: a server that forgot what it promised may promise
the opposite to somebody else. So the record stands in its file twice, and one copy is enough.

    file    copy, zeros up to a multiple of 4096, copy, zeros up to a multiple of 4096
    copy    magic 8, version 2, status 1, forgotten 1, accepted 4, current 4, reaches 8, segment 8,
            length of the membership's text 4, text, CRC-32 of all of that 4,
            "cmtd" 4, committed 8, CRC-32 of all of that 4          (big-endian)

Earlier versions wrote zeros in the place of the last line, and do not read it.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final
from zlib import crc32

from attrs import evolve, frozen

from zab.core.ensemble import Ensemble
from zab.core.errors import DamagedError, LocalProtocolError, ZabError
from zab.core.zxid import EPOCH_MAX, NOTHING, Epoch, Zxid
from zab.storage.disk import Disk, DiskFile, other_version, write_durably

NAME: Final = "epochs"
ASIDE: Final = "damaged."

_MAGIC: Final = b"zab.epo\n"
_VERSION: Final = 1
_HEAD: Final = Struct(">8sHBBIIQQI")
_CRC: Final = Struct(">I")
_HINT: Final = Struct(">4sQ")
_HINT_MAGIC: Final = b"cmtd"
_PAGE: Final = 4096


class HistoryStatus(IntEnum):
    """Whether the history on this disk may be voted with, and if not, why.

    HEALING: a snapshot has replaced what was lost, but the epoch it belongs to is not adopted yet. What came
    after the snapshot may have been acknowledged before the damage, so a crash now must not end in a vote.
    """

    WHOLE = 0
    NEVER_INITIALISED = 1
    DAMAGED = 2
    HEALING = 3


@frozen
class EpochsRecord:
    """`reaches`: the history was durable up to here. `segment`: first zxid of the newest log segment, or NOTHING.

    `forgotten`: there may have been promises of which this record does not know.

    `committed`: everything up to here was known to be committed. It is a hint that may lag far behind, and is at most
    `reaches`. A history that ends before it has lost acknowledged transactions.
    """

    accepted: Epoch = Epoch(0)
    current: Epoch = Epoch(0)
    ensemble: Ensemble | None = None
    status: HistoryStatus = HistoryStatus.WHOLE
    forgotten: bool = False
    reaches: Zxid = NOTHING
    segment: Zxid = NOTHING
    committed: Zxid = NOTHING


def missing(names: tuple[str, ...]) -> str:
    """What is wrong with a directory that has one of these files, and no record."""
    return f"{NAME}: missing, but there is {names[0]}"


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
    """Where the second copy begins, also when the end of the file is missing."""
    return -(-size // (2 * _PAGE)) * _PAGE


def decode(first: bytes | str, second: bytes | str) -> tuple[EpochsRecord, tuple[str, ...]]:
    """The record, and a note for each copy that was not needed because it is damaged.

    A copy is given as what was read, or as the reason why it could not be.
    """
    copies = [first if isinstance(first, str) else _decode_copy(first)]
    copies += copies if first == second else [second if isinstance(second, str) else _decode_copy(second)]
    good = [copy for copy in copies if isinstance(copy, EpochsRecord)]
    if not good:
        raise DamagedError(f"{NAME}: both copies are damaged: {copies[0]}; {copies[1]}")
    if len(good) == 2 and good[0].committed != good[1].committed:
        # Zeros in the place of one of them: what the other says was true when it was written.
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
        return f"{magic!r} is no record of ours"
    if version != _VERSION:
        raise other_version(NAME, version, _VERSION)
    committed = _decode_hint(data, end + _CRC.size)
    if committed is None:
        return "the checksum of what was committed is wrong"
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
        return f"the membership makes no sense: {error}"


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
    """The record as it stands on the disk, and the only way to change it."""

    def __init__(self, disk: Disk, record: EpochsRecord, *, damaged: bool = False) -> None:
        self.record = record
        self.committed = record.committed
        """What the next record says of it; a driver may raise it at any time, in any thread."""
        self._disk = disk
        self._damaged = damaged
        self._saved: EpochsRecord | None = None

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
        epochs._saved = None if notes else record  # a damaged copy is replaced at the next chance
        return epochs, notes

    def distrust(self, *, forgotten: bool) -> None:
        """The history turned out to be damaged. Every record from now on says so, until it is healed."""
        status = self.record.status
        if status is HistoryStatus.WHOLE:
            status = HistoryStatus.DAMAGED
        self.record = evolve(self.record, status=status, forgotten=self.record.forgotten or forgotten)

    def save(self, record: EpochsRecord) -> None:
        """Durable when this returns; nothing is written when nothing changed.

        In memory it counts only then: a promise that failed was not made.
        """
        record = evolve(record, committed=min(self.committed, record.reaches))
        if record == self._saved:
            return
        old = self.record
        if not 0 <= record.current <= record.accepted <= EPOCH_MAX:
            raise LocalProtocolError(f"current epoch {record.current}, accepted {record.accepted}: not in this order")
        if record.accepted < old.accepted or record.current < old.current:
            raise LocalProtocolError(
                f"epochs never decrease: accepted {old.accepted} to {record.accepted}, "
                f"current {old.current} to {record.current}"
            )
        if self._damaged:  # keep what is left of it for whoever wants to know how it happened
            self._disk.rename(NAME, ASIDE + NAME)
            self._damaged = False
        write_durably(self._disk, NAME, encode(record))
        self.record = self._saved = record

    def note(self, reaches: Zxid, segment: Zxid) -> None:
        """Say anew where the history is."""
        old = self.record
        self.save(EpochsRecord(old.accepted, old.current, old.ensemble, old.status, old.forgotten, reaches, segment))
