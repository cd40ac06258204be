"""Who leads: one in each leader epoch, one in sync, one of those that were in sync before; and epochs only go up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.checkers.controller.case import Broken, Case
from kraft_controller.core.names import NOBODY

ONE: Final = "one leader per leader epoch"
IN_SYNC: Final = "the leader is in the ISR"
CLEAN: Final = "an elected leader was in the ISR before"
UPWARDS: Final = "leader epochs increase"
ASSIGNED: Final = "ISR members are assigned replicas"


def check(case: Case) -> Iterator[Broken]:
    led: dict[tuple[object, int, int], int] = {}
    for write, where, state, before in case.states():
        if write.topic is None:
            continue  # its topic was taken away by hand
        if not state.isr:
            yield Broken(IN_SYNC, f"{where}: nobody is in sync")
        if state.leader != NOBODY and state.leader not in state.isr:
            yield Broken(IN_SYNC, f"{where}: led by {state.leader}, and {list(state.isr)} are in sync")
        held = write.topic.partitions.get(where.partition)
        if held is None or not set(state.isr) <= set(held.replicas):
            replicas = [] if held is None else list(held.replicas)
            yield Broken(ASSIGNED, f"{where}: {list(state.isr)} are in sync, and {replicas} hold it")
        if before is not None:
            if state.leader_epoch < before.leader_epoch:
                yield Broken(UPWARDS, f"{where}: from leader epoch {before.leader_epoch} to {state.leader_epoch}")
            if state.leader not in (NOBODY, before.leader, *before.isr) and not write.free:
                yield Broken(CLEAN, f"{where}: {state.leader} was elected, and {list(before.isr)} were in sync")
        if state.leader != NOBODY:
            key = (write.topic.id, where.partition, state.leader_epoch)
            if led.setdefault(key, state.leader) != state.leader:
                yield Broken(
                    ONE, f"{where}: {led[key]} and {state.leader} lead in the same leader epoch {state.leader_epoch}"
                )
