"""A run, prepared for those who judge controllers: what was written over what, while who ruled."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from attrs import frozen

from harness.checkers.controller.facts import Fact, Registered, Reigns
from harness.history import History
from kraft_controller.core.names import TopicPartition, Version
from kraft_controller.core.state import PartitionState, Topic
from kraft_controller.wire import znodes

STATE: Final = re.compile(r"/brokers/topics/([^/]+)/partitions/(\d+)/state")
TOPIC: Final = re.compile(r"/brokers/topics/([^/]+)")


@frozen
class Broken:
    promise: str
    what: str


@frozen
class Written:
    """One change of one node, with what was there before it and who ruled then."""

    zxid: int
    session: int
    kind: str
    path: str
    data: bytes | None
    version: int
    before: bytes | None
    ruler: int
    """The session that counted the controller's epoch up last."""
    epoch: int
    """That epoch."""
    topic: Topic | None
    """Of a state: what its topic's node says."""

    @property
    def where(self) -> TopicPartition | None:
        found = STATE.fullmatch(self.path)
        return TopicPartition(found[1], int(found[2])) if found else None

    @property
    def state(self) -> PartitionState | None:
        where = self.where
        return None if where is None else znodes.read_partition_state(where, self.data, Version(self.version))

    @property
    def state_before(self) -> PartitionState | None:
        where = self.where
        return None if where is None or self.before is None else znodes.read_partition_state(where, self.before, _ANY)


_ANY: Final = Version(0)


@frozen
class Case:
    history: History
    facts: tuple[Fact, ...]
    writes: tuple[Written, ...]
    brokers: dict[int, int]
    """Whose session it is."""

    @classmethod
    def of(cls, history: History, facts: Sequence[Fact]) -> Case:
        brokers = {fact.session: fact.broker for fact in facts if isinstance(fact, Registered | Reigns)}
        return cls(history, tuple(facts), tuple(_writes(history)), brokers)

    def states(self) -> Iterator[tuple[Written, TopicPartition, PartitionState, PartitionState | None]]:
        """Every state that was ever written, with the one before it."""
        for write in self.writes:
            where = write.where
            if where is not None and write.kind in ("create", "set"):
                state = write.state
                assert state is not None
                yield write, where, state, write.state_before

    def who(self, session: int) -> str:
        return f"broker {self.brokers[session]}" if session in self.brokers else f"session {session:#x}"


def _writes(history: History) -> Iterator[Written]:
    tree: dict[str, bytes | None] = {}
    topics: dict[str, Topic] = {}
    ruler = epoch = 0
    for change in history.changes:
        if change.kind == "close":
            for path in change.gone:
                yield Written(
                    change.zxid, change.session, "delete", path, None, 0, tree.pop(path, None), ruler, epoch, None
                )
        if change.kind not in ("create", "set", "delete"):
            continue
        path = change.path
        found = STATE.fullmatch(path)
        before = tree.get(path)
        yield Written(
            change.zxid, change.session, change.kind, path, change.data, change.version, before, ruler, epoch,
            topics.get(found[1]) if found else None,
        )  # fmt: skip
        if change.kind == "delete":
            tree.pop(path, None)
        else:
            tree[path] = change.data
        named = TOPIC.fullmatch(path)
        if named is not None:
            if change.kind == "delete":
                topics.pop(named[1], None)
            else:
                topics[named[1]] = znodes.read_topic(named[1], change.data, Version(change.version))
        elif path == znodes.CONTROLLER_EPOCH and change.kind == "set":
            ruler, epoch = change.session, znodes.read_controller_epoch(change.data)
