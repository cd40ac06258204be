"""Metrics of the groups that one broker coordinates: their number, states and rebalances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from replica.core.groups.group_states import Cause, GroupState
from replica.runtime.coordination.group_coordinator_runtime import GroupCoordinatorRuntime
from zab.admin.exposition import COUNTER, GAUGE, MetricSample

PREFIX: Final = "kafka_coordinator_group"


def samples(groups: GroupCoordinatorRuntime) -> Iterator[MetricSample]:
    """Yield the current metrics. The cost grows with the number of groups: call it once a scrape."""
    states: Counter[GroupState] = Counter()
    members = offsets = 0
    for group in groups.coordinator.groups:
        states[group.state] += 1
        members += len(group.members)
        offsets += len(group.offsets.positions)
    for state in GroupState:
        if state is not GroupState.DEAD:
            labels = {"state": state.value}
            yield MetricSample(f"{PREFIX}_num_groups", GAUGE, "groups coordinated here", states[state], labels)
    yield MetricSample(f"{PREFIX}_num_members", GAUGE, "members of groups coordinated here", members)
    yield MetricSample(f"{PREFIX}_num_offsets", GAUGE, "committed offsets kept for groups coordinated here", offsets)
    yield MetricSample(
        f"{PREFIX}_partitions_loading",
        GAUGE,
        "partitions of the offsets topic led here that are still being loaded: their groups are not served yet",
        len(groups.coordinator.topic.loading),
    )
    for cause in Cause:
        labels = {"cause": cause.value}
        about = "rebalances since the start, by cause"
        yield MetricSample(f"{PREFIX}_rebalances_total", COUNTER, about, groups.rebalances[cause], labels)
