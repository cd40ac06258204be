"""What members of a consumer group say to each other, in the encoding of Kafka's clients."""

from __future__ import annotations

from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata

from replica.cli.group_member import _assigned, assignment, in_ranges, subscription, topics_of


def test_subscriptions_and_assignments_are_those_of_other_clients() -> None:
    theirs = ConsumerProtocolMemberMetadata(0, ["t", "ü"], None)
    assert subscription(["t", "ü"]) == theirs.encode()
    assert topics_of(theirs.encode()) == ["t", "ü"]
    given = ConsumerProtocolMemberAssignment(0, [("t", [0, 2]), ("u", [1])], None)
    assert assignment({"t": [0, 2], "u": [1]}) == given.encode()
    assert _assigned(given.encode(), "t") == [0, 2]
    assert _assigned(given.encode(), "v") == _assigned(b"", "t") == []


def test_partitions_are_given_out_in_ranges() -> None:
    members = {"b": ["t"], "a": ["t", "u"], "c": ["u"]}
    assert in_ranges(members, {"t": range(5), "u": [0]}) == {
        "a": {"t": [0, 1, 2], "u": [0]},
        "b": {"t": [3, 4]},
        "c": {},
    }
    assert in_ranges({"a": ["u"]}, {"t": [0]}) == {"a": {}}
