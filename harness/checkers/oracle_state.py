"""The oracle state: every transaction that was ever logged, and the servers that have it.

Transactions form a tree, because each was logged behind another one. Committed ones form one path in it,
the *canon*. All questions that checkers ask ("does this disk hold that transaction?") are questions about
paths in this tree, and are answered from where the paths leave the canon, not by walking through it.
"""

from __future__ import annotations

from attrs import define, field

from zab.core.batch import Batch
from zab.core.ensemble import Ensemble
from zab.core.zxid import NOTHING, Epoch, ServerId, Zxid, show


class Violation(Exception):
    """An invariant was violated. `invariant` is its name."""

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(f"{invariant}: {what}")
        self.invariant = invariant
        self.what = what


@define
class ServerState:
    """The facts about one server, seen from outside. Facts about its disk outlive its process."""

    id: ServerId
    tip: Zxid = NOTHING
    """The end of the history that was handed to the disk."""
    durable: Zxid = NOTHING
    """The end of the history on the disk."""
    kept: list[Zxid] = field(factory=list)
    """The ends of histories that were durable here until the script removed them."""
    accepted: Epoch = Epoch(0)
    current: Epoch = Epoch(0)
    members: Zxid = NOTHING
    """The version of the membership that was handed to the disk as the one in force."""
    applied: Zxid = NOTHING
    count: int = 0
    """The number of transactions that the machine has applied, which is also its place in the canon."""
    promised: Epoch = Epoch(0)
    """The newest epoch that a leader proposed to it."""
    impaired: bool = False
    """Its disk was lost or damaged, and no leader has synchronized it since."""
    went_back: bool = False
    """The script has restored an earlier state of its disk, which the next start cannot notice."""
    state: int = 0
    leader: ServerId | None = None
    epoch: Epoch = Epoch(0)
    serving: bool = False
    stint: int = 0
    """The number of its leaderships."""
    up: bool = False


class OracleState:
    def __init__(self, ensemble: Ensemble, servers: int) -> None:
        self.initial_ensemble = ensemble
        self.servers = [ServerState(ServerId(sid)) for sid in range(servers + 1)]
        """The servers by id. The list has a placeholder at index 0."""
        self.parent: dict[Zxid, Zxid] = {}
        self.depth: dict[Zxid, int] = {NOTHING: 0}
        self.payload: dict[Zxid, bytes] = {}
        self.batches: dict[Zxid, Batch] = {}
        """The batch that was first logged under each first zxid, compared by identity."""
        self.governing: dict[Zxid, Ensemble] = {NOTHING: ensemble}
        """The newest membership in the history that ends at this zxid."""
        self.canon: list[Zxid] = [NOTHING]
        self.place: dict[Zxid, int] = {NOTHING: 0}
        """The place of each committed transaction in the canon."""
        self.initial: dict[Epoch, Zxid] = {}
        """The end of the initial history of each established epoch."""
        self.ruler: dict[Epoch, ServerId] = {}
        self.newest = Epoch(0)
        """The newest epoch in `initial`."""
        self.acknowledged = NOTHING
        """The newest zxid that was acknowledged to any client."""
        self.digests_are_sent = True
        """False if the servers exchange no digests, so that a server may not know the digest of its history."""

    def is_digest(self, reported: int | None, expected: int) -> bool:
        """Return whether a server may report this digest of its history."""
        return reported == expected or (reported is None and not self.digests_are_sent)

    @property
    def committed(self) -> Zxid:
        return self.canon[-1]

    # -- growing -----------------------------------------------------------------------------------

    def log(self, batch: Batch, behind: Zxid) -> None:
        """Add a batch that was logged behind `behind`. Known transactions stay as they are."""
        if self.batches.get(batch.first) is batch:
            return
        previous = behind
        payloads = batch.payloads()
        zxid = batch.first
        for payload in payloads:
            if zxid not in self.parent:
                self.parent[zxid] = previous
                self.depth[zxid] = self.depth[previous] + 1
                self.payload[zxid] = payload
                self.governing[zxid] = Ensemble.parse(payload.decode()) if batch.config else self.governing[previous]
            previous = zxid
            zxid = Zxid(zxid + 1)
        self.batches.setdefault(batch.first, batch)

    def extension(self, zxid: Zxid) -> list[Zxid] | None:
        """Return the path from the end of the canon to `zxid`; None if it does not pass through that end."""
        path = []
        while zxid not in self.place:
            path.append(zxid)
            zxid = self.parent[zxid]
        if zxid != self.canon[-1]:
            return None if path else []
        path.reverse()
        return path

    def commit(self, path: list[Zxid]) -> None:
        place = len(self.canon)
        for zxid in path:
            self.place[zxid] = place
            self.canon.append(zxid)
            place += 1

    # -- questions ---------------------------------------------------------------------------------

    def holds(self, tip: Zxid, zxid: Zxid) -> bool:
        """Return whether the history that ends at `tip` contains `zxid`."""
        if tip == zxid or zxid == NOTHING:
            return True
        depth = self.depth.get(zxid)
        if depth is None or tip not in self.depth:
            return False
        place = self.place
        while tip not in place:
            if self.depth[tip] <= depth:
                return tip == zxid
            tip = self.parent[tip]
        wanted = place.get(zxid)
        return wanted is not None and wanted <= place[tip]

    def shared(self, tip: Zxid) -> int:
        """Return the place of the last committed transaction in the history that ends at `tip`."""
        place = self.place
        while tip not in place:
            tip = self.parent[tip]
        return place[tip]

    def had(self, zxid: Zxid) -> list[ServerId]:
        """Return the servers that have or had it on disk: the loss of a disk uncommits nothing."""
        holds = self.holds
        return [
            known.id
            for known in self.servers[1:]
            if holds(known.durable, zxid) or any(holds(tip, zxid) for tip in known.kept)
        ]

    def view(self, zxid: Zxid) -> str:
        """Describe a zxid in messages."""
        return f"{show(zxid)}{'' if zxid in self.depth else ' (never logged)'}"
