"""A replica manager without data: what one broker was told, and what is on its disk.

It obeys as a real one must: an older leader epoch is no news, the same one brings at most a newer version of the state,
and what a full command does not name is astray. Who leads a partition decides about its ISR by who fetches from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from attrs import evolve

from kraft_controller.core.commands import (
    EPOCH_OF_DELETION,
    EPOCH_UNKNOWN,
    Command,
    LeaderAndIsr,
    Role,
    Stop,
    StopReplica,
    UpdateMetadata,
)
from kraft_controller.core.names import DELETED, BrokerId, LeaderEpoch, TopicId, TopicPartition, Version
from kraft_controller.core.state import PartitionState

FENCED_LEADER_EPOCH: Final = 74
LAG_MS: Final = 250
"""Who has not fetched for so long is not in sync any more."""
CATCH_UP_MS: Final = 40
"""Who has fetched for so long has everything."""

Fetches = Callable[[BrokerId, TopicPartition, LeaderEpoch], bool]
"""Whether this broker fetches this partition from the one that asks, in this leader epoch."""


class Replicas:
    def __init__(self, me: BrokerId) -> None:
        self.me = me
        self.disk: dict[TopicPartition, TopicId | None] = {}
        """Survives."""
        self.roles: dict[TopicPartition, Role] = {}
        self.stopped: set[TopicPartition] = set()
        """Told to stop, and not to delete."""
        self.metadata: dict[TopicPartition, PartitionState] = {}
        self.live: frozenset[BrokerId] = frozenset()
        self._since: dict[tuple[TopicPartition, BrokerId], tuple[bool, int]] = {}
        """Of each follower of what is led here: whether it fetches, and since when that is so."""

    def restarted(self) -> None:
        self.roles.clear()
        self.stopped.clear()
        self.metadata.clear()
        self._since.clear()
        self.live = frozenset()

    # -- commands ----------------------------------------------------------------------------------------

    def apply(self, command: Command) -> Mapping[TopicPartition, int]:
        match command:
            case LeaderAndIsr():
                return self._lead_or_follow(command)
            case UpdateMetadata():
                self.live = frozenset(broker.id for broker in command.brokers)
                if command.full:
                    self.metadata.clear()
                for role in command.roles:
                    if role.state.leader == DELETED:
                        self.metadata.pop(role.where, None)
                    else:
                        self.metadata[role.where] = role.state
                return {}
            case StopReplica():
                return {stop.where: FENCED_LEADER_EPOCH for stop in command.stops if not self._stop(stop)}

    def _lead_or_follow(self, command: LeaderAndIsr) -> Mapping[TopicPartition, int]:
        if command.full:
            named = {role.where for role in command.roles}
            for astray in [where for where in (*self.roles, *self.disk) if where not in named]:
                self._forget(astray)
        refused = {}
        for role in command.roles:
            where, held = role.where, self.roles.get(role.where)
            if self.disk.get(where, role.topic_id) != role.topic_id:
                self._forget(where)  # of a topic that had this name before
                held = None
            if held is not None and role.state.leader_epoch < held.state.leader_epoch:
                refused[where] = FENCED_LEADER_EPOCH
            elif held is None or role.state.leader_epoch > held.state.leader_epoch:
                self.roles[where] = role
                self.disk[where] = role.topic_id
                self.stopped.discard(where)
            elif role.state.version > held.state.version:
                self.roles[where] = role  # the same decision, on a state that was written since
        return refused

    def _stop(self, stop: Stop) -> bool:
        held = self.roles.get(stop.where)
        always = (EPOCH_UNKNOWN, EPOCH_OF_DELETION)
        if held is not None and stop.leader_epoch not in always and stop.leader_epoch < held.state.leader_epoch:
            return False
        if stop.delete:
            self._forget(stop.where)
        elif held is not None:
            self.stopped.add(stop.where)
        return True

    def _forget(self, where: TopicPartition) -> None:
        self.roles.pop(where, None)
        self.disk.pop(where, None)
        self.stopped.discard(where)

    # -- following, and being followed ---------------------------------------------------------------------

    def fetches(self, leader: BrokerId, where: TopicPartition, epoch: LeaderEpoch) -> bool:
        role = self.roles.get(where)
        return (
            role is not None
            and role.state.leader == leader
            and role.state.leader_epoch == epoch
            and where not in self.stopped
        )

    def led(self) -> list[Role]:
        return [
            role
            for where, role in self.roles.items()
            if role.state.leader == self.me and where not in self.stopped and self.me in role.state.isr
        ]

    def wishes(self, now_ms: int, fetches: Fetches) -> dict[TopicPartition, tuple[BrokerId, ...]]:
        """The ISRs that should be others, as this leader sees it."""
        wanted = {}
        for role in self.led():
            isr = tuple(
                broker
                for broker in role.assignment.replicas
                if broker == self.me or self._in_sync(role, broker, now_ms, fetches)
            )
            if set(isr) != set(role.state.isr):
                wanted[role.where] = isr
        return wanted

    def _in_sync(self, role: Role, follower: BrokerId, now_ms: int, fetches: Fetches) -> bool:
        key = (role.where, follower)
        does = fetches(follower, role.where, role.state.leader_epoch)
        known = self._since.get(key)
        if known is None or known[0] is not does:
            known = self._since[key] = (does, now_ms)
        for_ms = now_ms - known[1]
        if follower in role.state.isr:
            return does or for_ms < LAG_MS
        return does and for_ms >= CATCH_UP_MS and follower in self.live

    def written(self, role: Role, state: PartitionState) -> None:
        """The state as it stands in the store now, if nothing newer has been heard of it meanwhile."""
        held = self.roles.get(role.where)
        if held is None or held.state.leader_epoch != state.leader_epoch or held.state.version >= state.version:
            return
        self.roles[role.where] = evolve(held, state=state)

    def wish(self, role: Role, isr: tuple[BrokerId, ...]) -> PartitionState:
        """As the leader writes it: nothing but the ISR is its own to decide."""
        return evolve(role.state, isr=isr, version=Version(role.state.version))
