"""A restart finds what was written to the disk, and the state of a machine matches its history."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final
from zlib import crc32

from harness.checkers.judge import Checker
from harness.checkers.oracle_state import OracleState, ServerState
from zab.core.batch import digest_of
from zab.core.ready import Append, InstallSnapshot, Recovered, SaveEpochs, Truncate, Write
from zab.core.zxid import Epoch, ServerId, Zxid, epoch_of, show

Found = tuple[Epoch, Epoch, Zxid]


class RestartIsTheDisk(Checker):
    """Everything reported durable is found again, and beyond it only a prefix of the outstanding writes.

    A server whose disk was lost or damaged may find less, but must notice it and not vote. Every other server votes.
    Content that was unreadable once may be readable another time, unless it was replaced. A server whose disk was
    restored to an earlier state finds that state, and cannot notice it.
    """

    invariant = "a restart finds what was durable"

    def __init__(self, ghost: OracleState) -> None:
        super().__init__(ghost)
        self._possible: dict[ServerId, list[Found]] = {}
        self._most: dict[ServerId, tuple[Epoch, Epoch]] = {}
        """The newest epochs that each server has ever promised and adopted: of two copies of a disk, the newer one may
        be restored after the older."""
        self._unread: dict[ServerId, tuple[Zxid, set[Zxid]]] = {}
        """The end of the log, and its possible earlier ends, for each server that could not read its log."""

    def crashed(self, server: ServerState, unfinished: Sequence[Write]) -> None:
        accepted, current, last = server.accepted, server.current, server.durable
        promised, adopted = self._most.get(server.id, (accepted, current))
        self._most[server.id] = max(promised, accepted), max(adopted, current)
        possible = [(accepted, current, last)]
        for write in unfinished:
            match write:
                case SaveEpochs():
                    accepted, current = write.accepted, write.current
                case Append():
                    last = write.batch.last
                case Truncate():
                    possible += [(accepted, current, end) for end in self._between(write.zxid, last)]
                    last = write.zxid
                case InstallSnapshot():
                    last = write.zxid
                case _:
                    continue
            possible.append((accepted, current, last))
        end, unread = self._unread.get(server.id, (server.durable, set()))
        if end == server.durable:
            possible += [(accepted, current, last) for accepted, current, _ in possible for last in sorted(unread)]
        self._possible[server.id] = possible

    def _between(self, first: Zxid, last: Zxid) -> list[Zxid]:
        """Return the ends that an interrupted truncation may leave: it removes whole files from the end."""
        depth, parent = self.ghost.depth, self.ghost.parent
        ends = []
        while last in parent and depth[parent[last]] > depth.get(first, 0):
            last = parent[last]
            ends.append(last)
        return ends

    def started(self, server: ServerState, recovered: Recovered) -> None:
        last = recovered.batches[-1].last if recovered.batches else recovered.snapshot
        found = (recovered.accepted, recovered.current, last)
        possible = self._possible.get(server.id, [(server.accepted, server.current, server.durable)])
        self._unread.pop(server.id, None)
        if server.impaired and not recovered.voting:
            self._unread[server.id] = last, {end for _, _, end in possible}
        if not (recovered.voting or server.impaired or server.went_back):
            self.fail(f"server {server.id} reports a damaged disk and does not vote, but no fault has damaged the disk")
        if found in possible or (server.impaired and not recovered.voting):
            return
        if server.went_back and (not recovered.voting or self._was_there(found, server)):
            return
        # A server that holds a transaction of an epoch holds its initial history, and may report that epoch.
        if any(found == (accepted, max(current, epoch_of(end)), end) for accepted, current, end in possible):
            return
        self.fail(f"server {server.id} finds {_show(found)} on its disk; expected {' or '.join(map(_show, possible))}")

    def _was_there(self, found: Found, server: ServerState) -> bool:
        """Return whether the server had these epochs and a history with this end at some time, perhaps on another
        branch."""
        accepted, current, last = found
        promised, adopted = self._most.get(server.id, (server.accepted, server.current))
        return accepted <= promised and current <= adopted and last in self.ghost.depth


def _show(found: Found) -> str:
    accepted, current, last = found
    return f"(promised {accepted}, adopted {current}, history to {show(last)})"


class KeptSnapshotsServe(Checker):
    """An older snapshot is kept in case the newer one is unreadable: the log must continue it."""

    invariant = "the log continues every kept snapshot"

    def purged(self, server: ServerState, oldest: Zxid, begins: Zxid) -> None:
        if begins > oldest and not server.impaired:
            self.fail(f"server {server.id} keeps a snapshot at {show(oldest)}, but its log begins after {show(begins)}")


class NothingNeedlessStays(Checker):
    """A purge deletes the files that no kept snapshot needs, so the disk does not fill up.

    An unreadable snapshot does not count as one of those to be kept, so an older one may stay for it, but not after the
    server has stored two more itself.
    """

    invariant = "files that no kept snapshot needs are deleted"

    def __init__(self, ghost: OracleState) -> None:
        super().__init__(ghost)
        self._stood: dict[ServerId, tuple[Zxid, dict[str, int]]] = {}
        """The newest snapshot, and for how many snapshots each needless file has been there."""

    def started(self, server: ServerState, recovered: Recovered) -> None:
        self._stood.pop(server.id, None)

    def stays(self, server: ServerState, newest: Zxid, needless: Sequence[str]) -> None:
        last, stood = self._stood.get(server.id, (None, {}))
        if server.impaired:
            self._stood.pop(server.id, None)
            return
        if newest == last:
            return
        now = {name: stood.get(name, 0) + 1 for name in needless}
        self._stood[server.id] = newest, now
        for name, times in now.items():
            if times > _MORE:
                self.fail(
                    f"server {server.id} purged its files after its snapshot at {show(newest)}, but still has {name},"
                    f" which no kept snapshot has needed for {times} snapshots"
                )


_MORE: Final = 2
"""The number of snapshots that are kept."""


_ENTRY: Final = Struct(">QH")
"""The head of an entry in the state of the list machine: zxid, and length of the payload."""


class MachineIsHistory(Checker):
    """On every server, the state at a zxid is the one that the committed history yields from an empty machine."""

    invariant = "equal states at equal zxids"

    def __init__(self, ghost: OracleState) -> None:
        super().__init__(ghost)
        self._states = [0]
        self._digests = [0]

    def machine(self, server: ServerState, zxid: Zxid, state: int, digest: int | None) -> None:
        place = self.ghost.place.get(zxid)
        if place is None:
            self.fail(f"server {server.id} holds a state of {self.ghost.view(zxid)}, which was never committed")
            return
        self._extend(place)
        if state != self._states[place]:
            self.fail(f"server {server.id} at {show(zxid)} has another state than the history up to there yields")
        if not self.ghost.is_digest(digest, self._digests[place]):
            shown = "none" if digest is None else f"{digest:08x}"
            self.fail(
                f"server {server.id} at {show(zxid)} reports the digest {shown}; expected {self._digests[place]:08x}"
            )

    def _extend(self, place: int) -> None:
        ghost = self.ghost
        while len(self._states) <= place:
            zxid = ghost.canon[len(self._states)]
            payload = ghost.payload[zxid]
            entry = _ENTRY.pack(zxid, len(payload)) + payload
            self._states.append(crc32(entry, self._states[-1]))
            self._digests.append(digest_of((payload,), self._digests[-1]))
