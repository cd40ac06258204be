"""A run, prepared for the checkers: each write of a node, with the value before it and the controller at the time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from attrs import frozen

from harness.checkers.controller.facts import BecameController, Fact, Registered
from harness.history import Change, History
from kraft_controller.core.names import TopicPartition, Version
from kraft_controller.core.state import PartitionState, Topic
from kraft_controller.wire import znodes

STATE: Final = re.compile(r"/brokers/topics/([^/]+)/partitions/(\d+)/state")
TOPIC: Final = re.compile(r"/brokers/topics/([^/]+)")
ANY: Final = Version(0)
"""A placeholder for versions that the checker does not use."""
WRITES: Final = ("create", "set", "delete")
read_topic: Final = lru_cache(1 << 10)(znodes.read_topic)
read_state: Final = lru_cache(1 << 12)(znodes.read_partition_state)
"""Cached: the checks after a run read the same nodes again and again."""


@frozen
class Written:
    """One change of a node, with the data before it and the controller at the time."""

    zxid: int
    session: int
    kind: str
    path: str
    data: bytes | None
    version: int
    before: bytes | None
    controller: int
    """The session that last incremented the controller epoch."""
    epoch: int
    """The controller epoch at the time of the change."""
    topic: Topic | None
    """The topic of a partition state, from the topic's node; None for other nodes."""
    unclean: bool = False
    """True for a partition state if unclean elections of its topic are allowed, or have been."""

    @property
    def where(self) -> TopicPartition | None:
        found = STATE.fullmatch(self.path)
        return TopicPartition(found[1], int(found[2])) if found else None

    @property
    def state(self) -> PartitionState | None:
        return self._state(self.data, Version(self.version))

    @property
    def state_before(self) -> PartitionState | None:
        return self._state(self.before, ANY)

    def _state(self, data: bytes | None, version: Version) -> PartitionState | None:
        where = self.where
        return None if where is None or data is None else read_state(where, data, version)

    @property
    def decides(self) -> bool:
        """Return whether the write changes the leader or the leader epoch. Partition leaders write only the ISR."""
        return _leads(self.state) != _leads(self.state_before)


def _leads(state: PartitionState | None) -> tuple[int, int] | None:
    return None if state is None else (state.leader, state.leader_epoch)


_CONFIGS: Final = znodes.config_path("topics", "")


@frozen
class Case:
    history: History
    facts: tuple[Fact, ...]
    writes: tuple[Written, ...]
    brokers: dict[int, int]
    """The broker of each session, by session id."""

    @classmethod
    def of(cls, history: History, facts: Sequence[Fact]) -> Case:
        brokers = {fact.session: fact.broker for fact in facts if isinstance(fact, Registered | BecameController)}
        return cls(history, tuple(facts), tuple(_writes(history)), brokers)

    def states(self) -> Iterator[tuple[Written, TopicPartition, PartitionState, PartitionState | None]]:
        """Yield every written partition state, with the state before it."""
        for write in self.writes:
            where = write.where
            if where is not None and write.kind in ("create", "set"):
                state = write.state
                assert state is not None
                yield write, where, state, write.state_before

    def name(self, session: int) -> str:
        return f"broker {self.brokers[session]}" if session in self.brokers else f"session {session:#x}"


def _writes(history: History) -> Iterator[Written]:
    tree: dict[str, bytes | None] = {}
    topics: dict[str, Topic] = {}
    unclean: set[str] = set()
    controller = epoch = 0

    def written(change: Change, kind: str, path: str, data: bytes | None) -> Written:
        found = STATE.fullmatch(path)
        topic = found[1] if found else ""
        return Written(
            change.zxid, change.session, kind, path, data, change.version, tree.pop(path, None), controller, epoch,
            topics.get(topic), topic in unclean,
        )  # fmt: skip

    for change in history.changes:
        yield from (written(change, "delete", path, None) for path in change.gone)
        if change.kind not in WRITES:
            continue
        path = change.path
        yield written(change, change.kind, path, change.data)
        if change.kind != "delete":
            tree[path] = change.data
        named = TOPIC.fullmatch(path)
        if named is not None:
            topics.pop(named[1], None)
            if change.kind != "delete":
                topics[named[1]] = znodes.read_topic(named[1], change.data, Version(change.version))
        elif path.startswith(_CONFIGS) and change.kind != "delete":
            if znodes.read_config(path, change.data).get("unclean.leader.election.enable") == "true":
                unclean.add(path.removeprefix(_CONFIGS))
        elif path == znodes.CONTROLLER_EPOCH and change.kind == "set":
            controller, epoch = change.session, znodes.read_controller_epoch(change.data)
