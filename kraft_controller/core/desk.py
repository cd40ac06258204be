"""Where a controller works: its picture of the cluster, what it is about to say, and what it has noted for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from attrs import define, field, frozen

from kraft_controller.core.cluster import Cluster
from kraft_controller.core.commands import Batch, Command
from kraft_controller.core.names import BrokerId, ControllerEpoch

DAMAGED_MAX: Final = 10_000
"""So many nodes that cannot be read are remembered as said."""


@frozen
class Note:
    """Something an operator may want to know. `event` is one of few words, `fields` say what about."""

    event: str
    fields: tuple[tuple[str, object], ...]


@frozen
class Settings:
    """unclean_election  topics without a word of their own may be led by who was not in sync
    deletion          `delete.topic.enable`
    imbalance_percent `leader.imbalance.per.broker.percentage`
    min_isr           `min.insync.replicas`, of topics without a word of their own; only for what is counted
    """

    unclean_election: bool = False
    deletion: bool = True
    imbalance_percent: int = 10
    min_isr: int = 1


@define
class Desk:
    me: BrokerId
    epoch: ControllerEpoch
    settings: Settings = field(factory=Settings)
    cluster: Cluster = field(init=False)
    batch: Batch = field(init=False)
    notes: list[Note] = field(factory=list)
    unclean_by_default: bool = False
    """For topics without a word of their own: as is configured for this broker, or for all, or else the settings."""
    min_isr_by_default: int = 1
    """The same of `min.insync.replicas`."""
    config_changes_seen: int = -1
    config_changes_of: int = 0
    _damaged: dict[str, int] = field(factory=dict)
    """What was said of nodes that cannot be read, and of which write of each."""
    elections: int = 0
    unclean_elections: int = 0

    def __attrs_post_init__(self) -> None:
        self.cluster = Cluster(self.epoch)
        self.batch = Batch(self.cluster, self.me)
        self.unclean_by_default = self.settings.unclean_election
        self.min_isr_by_default = self.settings.min_isr

    def note(self, event: str, **fields: object) -> None:
        self.notes.append(Note(event, tuple(fields.items())))

    def note_damaged(self, why: str, written: int = 0) -> None:
        """Once for each write that left a node so, however often it is read."""
        if self._damaged.get(why) == written:
            return
        if len(self._damaged) >= DAMAGED_MAX:
            self._damaged.clear()
        self._damaged[why] = written
        self.note("damaged", why=why)

    def say(self) -> Iterator[tuple[BrokerId, Command]]:
        """What is to be sent now, in this order to each broker."""
        yield from self.batch.commands()
