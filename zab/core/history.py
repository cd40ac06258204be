"""The logged history: its recent part in memory, its older part as an outline.

Histories have the property that Raft calls log matching: a history contains a transaction `e/c` only after everything
that the leader of `e` had before it. So two histories that share one zxid share everything before it, and the outline
alone (where each epoch ends) yields the newest common zxid.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from operator import attrgetter
from typing import Final

from zab.core.batch import Batch, digest_of, parts_of_change
from zab.core.ensemble import Ensemble
from zab.core.errors import LocalProtocolError, RemoteProtocolError
from zab.core.ready import Recovered, Settings
from zab.core.zxid import NOTHING, Zxid, counter_of, epoch_of, follows, show

_last: Callable[[Batch], Zxid] = attrgetter("last")
"""The key of every binary search over batches."""


BYTES_UNKNOWN: Final = 1 << 62
"""The result of `bytes_behind` if there is no basis for an estimate: larger than any snapshot."""


class History:
    """The history of one server: `(base, last]` in memory as batches, `(log_start, last]` in memory or on disk.

    Always `log_start <= base`. The outline covers `(outlined, last]`, and `outlined <= log_start`: a purge leaves the
    outline as it is.

    No digest is known if the history began with a snapshot from a leader without digests, as all leaders of Apache
    ZooKeeper are. Two histories are then compared by their zxids alone.
    """

    __slots__ = (
        "_base_digest",
        "_batches",
        "_bytes",
        "_digests",
        "_disk_start",
        "_ends",
        "_entries",
        "base",
        "configs",
        "last",
        "outlined",
    )

    def __init__(self, recovered: Recovered) -> None:
        self.base = recovered.snapshot
        """Batches in memory begin after this zxid. It may have counter 0 after a snapshot of ZooKeeper, which gives a
        state this zxid if the epoch is established and has no transaction yet.
        """
        self.last = recovered.snapshot
        """The end of the history."""
        self.outlined = self._disk_start = recovered.log_start
        self.configs: list[Ensemble] = []
        """Membership changes in `(base, last]`; each one's version is its zxid."""
        self._base_digest = recovered.digest
        """The digest of the history up to `base`; None if no digest of this history is known."""
        self._batches: list[Batch] = []
        """The batches in memory, `(base, last]` without a gap."""
        self._digests: list[int] = []
        """The digests at the ends of the first batches. More are computed when they are needed."""
        self._ends: list[Zxid] = []
        """The outline: the last zxid in `[outlined, last]` of each epoch that has one there, ascending."""
        self._entries = self._bytes = 0
        """The number of transactions, and of bytes, in `_batches`."""
        for end in (recovered.log_start, *recovered.epoch_ends, recovered.snapshot):
            if end:
                self._note_end(end)
        for batch in recovered.batches:
            self.append(batch)

    # -- growing and shrinking ---------------------------------------------------------------------

    def append(self, batch: Batch) -> None:
        if not follows(batch.first, self.last):
            raise RemoteProtocolError(f"{show(batch.first)} does not follow {show(self.last)}: there is a gap")
        if batch.config:
            self.configs.append(config_of(batch))
        self._batches.append(batch)
        self._entries += batch.count
        self._bytes += len(batch.body)
        self.last = batch.last
        self._note_end(self.last)

    def truncate(self, zxid: Zxid) -> None:
        """Discard everything after `zxid`, which must be in `[base, last]`."""
        if not self.base <= zxid <= self.last:
            raise LocalProtocolError(f"cannot cut at {show(zxid)}, outside {show(self.base)}..{show(self.last)}")
        keep = bisect_right(self._batches, zxid, key=_last)
        kept = self._batches[:keep]
        if keep < len(self._batches) and self._batches[keep].first <= zxid:
            kept.append(self._batches[keep].until(zxid))
        self._batches = kept
        del self._digests[keep:]
        self._entries = sum(batch.count for batch in kept)
        self._bytes = sum(len(batch.body) for batch in kept)
        self.configs = [config for config in self.configs if config.version <= zxid]
        self._ends = [end for end in self._ends if end < zxid]
        self.last = zxid
        if zxid:
            self._ends.append(zxid)

    def reset(self, zxid: Zxid, digest: int | None) -> None:
        """Restart the history at a snapshot at `zxid`, and forget all transactions."""
        self.base = self.last = self._disk_start = self.outlined = zxid
        self._base_digest = digest
        self._batches = []
        self._digests.clear()
        self._entries = self._bytes = 0
        self._ends = [zxid] if zxid else []
        self.configs = []

    def trim(self, applied: Zxid, settings: Settings) -> None:
        """Drop old batches from memory, down to half of the window, if the window is exceeded.

        Batches that are not applied stay.
        """
        if self._entries <= settings.window_entries and self._bytes <= settings.window_bytes:
            return
        # Removing the head of a list costs time in proportion to its length, so half of the window is removed at once.
        drop = 0
        entries, size = self._entries, self._bytes
        while drop < len(self._batches) and (
            entries > settings.window_entries // 2 or size > settings.window_bytes // 2
        ):
            batch = self._batches[drop]
            if batch.last > applied:
                break
            entries -= batch.count
            size -= len(batch.body)
            self.base = batch.last
            drop += 1
        self._base_digest = self._digest_behind(drop)
        del self._batches[:drop]
        del self._digests[:drop]
        self._entries, self._bytes = entries, size
        self.configs = [config for config in self.configs if config.version > self.base]

    def purged(self, zxid: Zxid) -> None:
        """Record that the log on disk was purged and now begins after `zxid`."""
        self._disk_start = max(self._disk_start, zxid)

    def _note_end(self, zxid: Zxid) -> None:
        if self._ends and self._ends[-1] >> 32 == zxid >> 32:
            self._ends[-1] = zxid  # stays ascending, because no caller passes an older zxid
        else:
            self._ends.append(zxid)

    # -- queries -----------------------------------------------------------------------------------

    @property
    def log_start(self) -> Zxid:
        """The zxid after which all transactions can be read again, from memory or from the disk."""
        return min(self._disk_start, self.base)

    def floor(self, zxid: Zxid) -> Zxid | None:
        """Return the newest zxid of this history that is not after `zxid`; None if `zxid` is before `outlined`."""
        if zxid >= self.last:
            return self.last
        if zxid <= self.outlined:
            return zxid if zxid == self.outlined else None
        position = bisect_left(self._ends, epoch_of(zxid), key=epoch_of)
        if position < len(self._ends) and epoch_of(self._ends[position]) == epoch_of(zxid) and counter_of(zxid):
            return min(zxid, self._ends[position])
        return self._ends[position - 1] if position else NOTHING

    def after(self, zxid: Zxid, until: Zxid | None = None) -> list[Batch]:
        """Return the transactions in `(zxid, until]` as batches, which are cut at both ends.

        `zxid` must not be before `base`; `until` is `last` by default.
        """
        assert zxid >= self.base, f"{show(zxid)} is not in memory, which starts after {show(self.base)}"
        until = self.last if until is None else until
        if zxid >= until:
            return []
        start = bisect_right(self._batches, zxid, key=_last)
        found = self._batches[start:]
        if until < self.last:
            found = found[: bisect_left(found, until, key=_last) + 1]
            found[-1] = found[-1].until(until)
        if found[0].first <= zxid:
            found[0] = found[0].after(zxid)
        return found

    def digest_at(self, zxid: Zxid) -> int | None:
        """Return the digest of the history up to `zxid`.

        Return None if `zxid` is before `base` or after `last`, or if no digest is known.
        """
        if not self.base <= zxid <= self.last:
            return None
        whole = bisect_right(self._batches, zxid, key=_last)
        digest = self._digest_behind(whole)
        if digest is None:
            return None
        if whole < len(self._batches) and self._batches[whole].first <= zxid:
            digest = digest_of(self._batches[whole].until(zxid).payloads(), digest)
        return digest

    def _digest_behind(self, count: int) -> int | None:
        """Return the digest of the history up to the end of the first `count` batches in memory, if it is known."""
        base, digests = self._base_digest, self._digests
        if base is None:
            return None
        for batch in self._batches[len(digests) : count]:
            digests.append(digest_of(batch.payloads(), digests[-1] if digests else base))
        return digests[count - 1] if count else base

    def bytes_behind(self, zxid: Zxid) -> int:
        """Estimate the bytes of the transactions after `zxid`, from the mean size of the transactions in memory.

        Return BYTES_UNKNOWN if there are such transactions, but none in memory.
        """
        count = self.entries_between(zxid, self.last)
        return 0 if not count else count * self._bytes // self._entries if self._entries else BYTES_UNKNOWN

    def entries_between(self, after: Zxid, until: Zxid) -> int:
        """Return the number of transactions in `(after, until]`.

        `until` must be in this history. `after` must be in it, or be NOTHING: then transactions before the outline are
        not all counted.
        """
        count, start = 0, after
        for end in self._ends:
            if end <= start:
                continue
            stop = min(end, until)
            count += stop - start if stop >> 32 == start >> 32 else counter_of(stop)
            start = stop
            if start >= until:
                break
        return count


def config_of(batch: Batch) -> Ensemble:
    """Return the membership that a configuration batch contains. Raise RemoteProtocolError unless it is valid."""
    payloads = batch.payloads()
    if len(payloads) != 1:
        raise RemoteProtocolError(
            f"{show(batch.first)}: a membership change must be alone in its batch, which has {len(payloads)} payloads"
        )
    try:
        ensemble = Ensemble.parse(parts_of_change(payloads[0])[0])
    except Exception as error:
        raise RemoteProtocolError(f"{show(batch.first)}: the membership does not parse: {error}") from error
    if ensemble.version != batch.first:
        raise RemoteProtocolError(
            f"{show(batch.first)}: the membership has version {show(ensemble.version)}, not its own zxid"
        )
    return ensemble
