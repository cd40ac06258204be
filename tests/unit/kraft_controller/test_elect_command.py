"""The outcomes that `zab-broker elect` reports."""

from __future__ import annotations

import pytest

from kraft_controller.cli.elect_command import _row
from kraft_controller.core.names import BrokerId, TopicPartition
from kraft_controller.core.state import Assignment, Topic
from kraft_controller.runtime.admin.cluster_description import ClusterDescription

T0 = TopicPartition("t", 0)
TOPICS = {"t": Topic("t", None, {0: Assignment((BrokerId(1),))})}


def described(*deleting: str) -> ClusterDescription:
    return ClusterDescription({}, TOPICS, {}, {}, frozenset(deleting), ())


@pytest.mark.parametrize("unclean", [False, True])
def test_deletion_of_the_topic_is_the_reason(unclean: bool) -> None:
    assert _row(described(), described("t"), T0, unclean)["outcome"] == "the topic is being deleted"


@pytest.mark.parametrize(
    ("unclean", "outcome"),
    [
        (False, "the preferred leader, broker 1, is not alive"),
        (True, "none of its replicas is available, or its state cannot be read"),
    ],
)
def test_missing_brokers_are_the_reason(unclean: bool, outcome: str) -> None:
    assert _row(described(), described(), T0, unclean)["outcome"] == outcome
