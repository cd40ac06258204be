"""A replica manager without data: the commands that one broker received, and the partitions on its disk.

It handles commands as a real one must. A role with an older leader epoch is refused; one with the same epoch counts
only if its state has a newer version. A replica that a full command does not name is stray, and is deleted. The leader
of a partition derives the ISR from the followers that fetch from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from attrs import evolve

from kraft_controller.core import commands
from kraft_controller.core.names import DELETED, BrokerId, LeaderEpoch, TopicId, TopicPartition, Version
from kraft_controller.core.state import PartitionState

FENCED_LEADER_EPOCH: Final = 74
LAG_MS: Final = 250
"""A follower that has not fetched for this time leaves the ISR."""
CATCH_UP_MS: Final = 40
"""A follower that has fetched for this time has caught up and may join the ISR."""

Fetches = Callable[[BrokerId, TopicPartition, LeaderEpoch], bool]
"""Returns whether a broker fetches a partition from the calling broker in a leader epoch."""


class Replicas:
    def __init__(self, me: BrokerId) -> None:
        self.me = me
        self.disk: dict[TopicPartition, TopicId | None] = {}
        """The topic id of each partition on the disk. It survives restarts."""
        self.roles: dict[TopicPartition, commands.Role] = {}
        self.stopped: set[TopicPartition] = set()
        """The partitions that a command stopped without deleting them."""
        self.metadata: dict[TopicPartition, PartitionState] = {}
        self.live: frozenset[BrokerId] = frozenset()
        self._since: dict[tuple[TopicPartition, BrokerId], tuple[bool, int]] = {}
        """The fetch state of each follower of a partition led here: (fetches, milliseconds of the last change)."""

    def restarted(self) -> None:
        self.roles.clear()
        self.stopped.clear()
        self.metadata.clear()
        self._since.clear()
        self.live = frozenset()

    # -- commands ----------------------------------------------------------------------------------------

    def apply_command(self, command: commands.Command) -> Mapping[TopicPartition, int]:
        match command:
            case commands.LeaderAndIsr():
                return self._lead_or_follow(command)
            case commands.UpdateMetadata():
                self.live = frozenset(broker.id for broker in command.brokers)
                if command.full:
                    self.metadata.clear()
                for role in command.roles:
                    if role.state.leader == DELETED:
                        self.metadata.pop(role.where, None)
                    else:
                        self.metadata[role.where] = role.state
                return {}
            case commands.StopReplica():
                return {stop.where: FENCED_LEADER_EPOCH for stop in command.stops if not self._stop(stop)}

    def _lead_or_follow(self, command: commands.LeaderAndIsr) -> Mapping[TopicPartition, int]:
        if command.full:
            named = {role.where for role in command.roles}
            for stray in [where for where in (*self.roles, *self.disk) if where not in named]:
                self._forget(stray)
        refused = {}
        for role in command.roles:
            where, held = role.where, self.roles.get(role.where)
            if self.disk.get(where, role.topic_id) != role.topic_id:
                self._forget(where)  # it belongs to an earlier topic of this name
                held = None
            if held is not None and role.state.leader_epoch < held.state.leader_epoch:
                refused[where] = FENCED_LEADER_EPOCH
            elif held is None or role.state.leader_epoch > held.state.leader_epoch:
                self.roles[where] = role
                self.disk[where] = role.topic_id
                self.stopped.discard(where)
            elif role.state.version > held.state.version:
                self.roles[where] = role  # the same decision, with a state that was written since
        return refused

    def _stop(self, stop: commands.Stop) -> bool:
        held = self.roles.get(stop.where)
        always = (commands.EPOCH_UNKNOWN, commands.EPOCH_OF_DELETION)
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

    # -- leaders and followers -------------------------------------------------------------------------------

    def fetches(self, leader: BrokerId, where: TopicPartition, epoch: LeaderEpoch) -> bool:
        role = self.roles.get(where)
        return (
            role is not None
            and role.state.leader == leader
            and role.state.leader_epoch == epoch
            and where not in self.stopped
        )

    def led(self) -> list[commands.Role]:
        return [
            role
            for where, role in self.roles.items()
            if role.state.leader == self.me and where not in self.stopped and self.me in role.state.isr
        ]

    def wanted_isrs(self, now_ms: int, fetches: Fetches) -> dict[TopicPartition, tuple[BrokerId, ...]]:
        """Return the new ISR of each partition led here whose ISR has to change."""
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

    def _in_sync(self, role: commands.Role, follower: BrokerId, now_ms: int, fetches: Fetches) -> bool:
        key = (role.where, follower)
        does = fetches(follower, role.where, role.state.leader_epoch)
        known = self._since.get(key)
        if known is None or known[0] is not does:
            known = self._since[key] = (does, now_ms)
        for_ms = now_ms - known[1]
        if follower in role.state.isr:
            return does or for_ms < LAG_MS
        return does and for_ms >= CATCH_UP_MS and follower in self.live

    def state_written(self, role: commands.Role, state: PartitionState) -> None:
        """Adopt a state that was read from the store, unless the role has another epoch or a newer version by now."""
        held = self.roles.get(role.where)
        if held is None or held.state.leader_epoch != state.leader_epoch or held.state.version >= state.version:
            return
        self.roles[role.where] = evolve(held, state=state)

    def with_isr(self, role: commands.Role, isr: tuple[BrokerId, ...]) -> PartitionState:
        """Return the state of the partition with another ISR. A leader may change nothing else."""
        return evolve(role.state, isr=isr, version=Version(role.state.version))
