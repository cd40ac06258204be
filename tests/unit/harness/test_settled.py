"""The checker of a settled cluster, on states that only a bug can leave."""

from __future__ import annotations

from harness.checkers.controller.settled import apart
from kraft_controller.core.names import BrokerId, TopicPartition
from kraft_controller.core.state import Assignment
from kraft_controller.wire import znodes


def test_a_partition_state_without_assignment_is_reported() -> None:
    stray = znodes.state_path(TopicPartition("t", 1))
    data = {
        znodes.CONTROLLER: znodes.controller(BrokerId(1), 0),
        znodes.topic_path("t"): znodes.topic(None, {0: Assignment((BrokerId(1),))}),
        stray: b"",
    }
    assert apart(data, dict.fromkeys(data, 0), {}, 0) == f"{stray} exists, but its topic does not list the partition"
