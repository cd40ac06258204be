"""Measurements of the groups that one broker coordinates: how many, in which state, and why they rebalance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from replica.core.groups.group_states import Cause, GroupState
from replica.runtime.coordination.group_coordinator_runtime import GroupCoordinatorRuntime
from zab.admin.exposition import COUNTER, GAUGE, MetricSample

PREFIX: Final = "kafka_coordinator_group"


def samples(groups: GroupCoordinatorRuntime) -> Iterator[MetricSample]:
    """As of now. It looks at every group, so not more often than a person or an exporter would."""
    states: Counter[GroupState] = Counter()
    members = offsets = 0
    for group in groups.coordinator.groups:
        states[group.state] += 1
        members += len(group.members)
        offsets += len(group.offsets.positions)
    for state in GroupState:
        if state is not GroupState.DEAD:
            labels = {"state": state.value}
            yield MetricSample(f"{PREFIX}_num_groups", GAUGE, "groups that are coordinated here", states[state], labels)
    yield MetricSample(f"{PREFIX}_num_members", GAUGE, "their members", members)
    yield MetricSample(f"{PREFIX}_num_offsets", GAUGE, "positions that are kept for them", offsets)
    yield MetricSample(
        f"{PREFIX}_partitions_loading",
        GAUGE,
        "partitions of the offsets topic that are led here, and whose groups are not served yet",
        len(groups.coordinator.topic.loading),
    )
    for cause in Cause:
        labels = {"cause": cause.value}
        about = "rebalances that began, by what they began with"
        yield MetricSample(f"{PREFIX}_rebalances_total", COUNTER, about, groups.rebalances[cause], labels)
