"""Requests of the controller to the store, operation by operation."""

from __future__ import annotations

from typing import Any

import pytest

from kraft_controller.core.controller_store import ConfigChanges
from kraft_controller.core.names import BrokerId, TopicPartition, Version
from kraft_controller.core.store_requests import (
    Check,
    Children,
    Delete,
    Done,
    Exists,
    Failed,
    Get,
    Listing,
    Multi,
    Node,
    Operation,
    Result,
    Set,
    StoreRequests,
    Sync,
    Why,
)
from kraft_controller.wire import znodes
from kraft_controller.wire.epoch_fence import Fence
from kraft_controller.wire.znode_store import ZnodeStore

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TWO, THREE = (BrokerId(2),), (BrokerId(3),)
FENCE = Check(znodes.CONTROLLER_EPOCH, Version(3))


STORE = ZnodeStore(Fence(Version(3)))


def played(procedure: StoreRequests[Any], *results: Result) -> list[Operation]:
    """Return the operations that a procedure requests when it receives these results."""
    operations: list[Operation] = []
    try:
        [operation] = next(procedure)
        operations.append(operation)
        for each in results:
            [operation] = procedure.send([each])
            operations.append(operation)
    except StopIteration:
        pass
    return operations


def node(wanted: dict[TopicPartition, tuple[BrokerId, ...]], version: int) -> Node:
    return Node(znodes.reassignment(wanted), Version(version), 1, 0, 1)


READ = Get(znodes.REASSIGN)


def test_reassignment_request_is_deleted_only_at_the_version_read() -> None:
    asked = played(
        STORE.drop_reassignments((T0,)),
        node({T0: TWO}, 5),
        Failed(Why.BAD_VERSION, 1),
        node({T0: TWO, T1: TWO}, 6),
        Done((None, Version(7))),
    )
    assert asked[:3] == [READ, Multi((FENCE, Delete(znodes.REASSIGN, Version(5)))), READ]
    assert asked[3] == Multi((FENCE, Set(znodes.REASSIGN, znodes.reassignment({T1: TWO}), Version(6))))


def test_newer_reassignment_request_is_kept() -> None:
    assert played(STORE.drop_reassignments((T0,), (TWO,)), node({T0: THREE}, 5)) == [READ]


def test_lost_reply_to_a_deletion_is_resolved_by_reading() -> None:
    gone = Failed(Why.NO_NODE)
    asked = played(STORE.drop_reassignments((T0,)), node({T0: TWO}, 5), Failed(Why.UNKNOWN), gone)
    assert asked == [READ, Multi((FENCE, Delete(znodes.REASSIGN, Version(5)))), READ]


@pytest.mark.parametrize(
    ("there", "meant"),
    [
        (Node(b"mine", Version(6), 1, 0, 1), Version(6)),
        (Node(b"another's", Version(6), 1, 0, 1), Failed(Why.BAD_VERSION)),
        (Node(b"mine", Version(7), 1, 0, 1), Failed(Why.BAD_VERSION)),
        (Failed(Why.NO_NODE), Failed(Why.NO_NODE)),
    ],
    ids=["applied", "another write", "written again since", "deleted"],
)
def test_node_shows_the_outcome_of_a_write_with_a_lost_reply(there: Node | Failed, meant: Version | Failed) -> None:
    work = Fence(Version(3)).set("/a", b"mine", Version(5))
    assert next(work) == [Multi((FENCE, Set("/a", b"mine", Version(5))))]
    assert work.send([Failed(Why.UNKNOWN)]) == [Sync("/a")]
    assert work.send([Done(())]) == [Get("/a")]
    with pytest.raises(StopIteration) as told:
        work.send([there])
    assert told.value.value == meant


def test_write_that_never_arrived_is_repeated() -> None:
    work = Fence(Version(3)).set("/a", b"mine", Version(5))
    change = next(work)
    work.send([Failed(Why.UNKNOWN)])
    work.send([Done(())])
    assert work.send([Node(b"before", Version(5), 1, 0, 1)]) == change


TOPIC, CONFIG, REQUEST = "/brokers/topics/t", "/config/topics/t", "/admin/delete_topics/t"
FULL = Failed(Why.NOT_EMPTY, 1)
NOTHING = Listing(())


def gone(path: str) -> Multi:
    return Multi((FENCE, Delete(path)))


def test_nodes_created_below_a_topic_during_its_deletion_are_deleted() -> None:
    asked = played(
        STORE.delete_topic("t"),
        *(FULL, NOTHING, FULL),
        *(Listing(("late",)), Failed(Why.UNKNOWN), Failed(Why.NO_NODE, 1), Done((None, None))),
        *(Done((None, None)), Done((None, None))),
    )
    late = f"{TOPIC}/late"
    first = [gone(TOPIC), Children(TOPIC), gone(TOPIC)]
    again = [Children(TOPIC), gone(late), gone(late), gone(TOPIC)]
    assert asked == [*first, *again, gone(CONFIG), gone(REQUEST)]


def test_deletion_request_stays_while_nodes_are_created_below_the_topic() -> None:
    work = STORE.delete_topic("t")
    asked = next(work)
    with pytest.raises(StopIteration) as end:
        for _ in range(1000):
            asked = work.send([NOTHING if isinstance(asked[0], Children) else FULL])
            assert asked[0] in (Children(TOPIC), gone(TOPIC))
    assert end.value.value is False


def test_all_notifications_below_a_recreated_node_are_new() -> None:
    """The store numbers them from 0 again, so by number alone they would count as seen."""
    above, path = Node(b"", Version(0), 20, 0), "/config/changes/config_change_0000000000"
    note = Node(znodes.config_change("topics", "t"), Version(0), 21, 0)
    work = STORE.config_changes(seen=7, of=10)
    assert next(work) == [Exists(znodes.CONFIG_CHANGES)]
    assert work.send([above]) == [Children(znodes.CONFIG_CHANGES, watch=True)]
    assert work.send([Listing(("config_change_0000000000",))]) == [Get(path)]
    with pytest.raises(StopIteration) as end:
        work.send([note])
    assert end.value.value == ConfigChanges(("topics/t",), 0, 20, listed=1)


@pytest.mark.parametrize("there", [True, False])
def test_configuration_of_a_deleted_topic_goes_with_its_deletion_request(there: bool) -> None:
    """Its controller may have died between the two. If the topic exists, only the request is deleted."""
    found: Result = Node(b"{}", Version(0), 1, 0) if there else Failed(Why.NO_NODE)
    asked = played(STORE.drop_topic_deletion("t"), found, Done((None,)), Done((None,)))
    gone = [Multi((FENCE, Delete(path))) for path in ((REQUEST,) if there else (CONFIG, REQUEST))]
    assert asked[: len(gone) + 1] == [Exists(TOPIC), *gone]
