"""What members of a consumer group say to each other, in the encoding of Kafka's clients."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata

from kraft_controller.core.names import TopicPartition
from replica.cli.group_member import GroupMember, assignment, in_ranges, subscription
from replica.wire.group_records import assigned_in, topics_of
from replica.wire.schemas.group_schemas import JoinGroupResponseMember
from zab.cli.kit.failures import Failed


def test_subscriptions_and_assignments_are_those_of_other_clients() -> None:
    theirs = ConsumerProtocolMemberMetadata(0, ["t", "ü"], None)
    assert subscription(["t", "ü"]) == theirs.encode()
    assert topics_of(theirs.encode()) == frozenset({"t", "ü"})
    given = ConsumerProtocolMemberAssignment(0, [("t", [0, 2]), ("u", [1])], None)
    assert assignment({"t": [0, 2], "u": [1]}) == given.encode()
    assert assigned_in(given.encode()) == (TopicPartition("t", 0), TopicPartition("t", 2), TopicPartition("u", 1))
    assert assigned_in(b"") == ()


def test_partitions_are_given_out_in_ranges() -> None:
    members = {"b": ["t"], "a": ["t", "u"], "c": ["u"]}
    assert in_ranges(members, {"t": range(5), "u": [0]}) == {
        "a": {"t": [0, 1, 2], "u": [0]},
        "b": {"t": [3, 4]},
        "c": {},
    }
    assert in_ranges({"a": ["u"]}, {"t": [0]}) == {"a": {}}


def test_leader_names_the_member_whose_subscription_has_another_format() -> None:
    member = GroupMember(Mock(), "g", "t")
    with pytest.raises(Failed, match="group g: the subscription of member m-1 is not in the format"):
        member._topics_of(JoinGroupResponseMember("m-1", None, b"\x00"))
