"""What is asked of the store's nodes, and how: nobody's newer word is taken away with the one that is dealt with."""

from __future__ import annotations

import pytest

from kraft_controller.core import asks
from kraft_controller.core.asks import Ask
from kraft_controller.core.names import BrokerId, TopicPartition, Version
from kraft_controller.wire import znodes
from kraft_controller.wire.asking import Asking
from kraft_controller.wire.reign import Fence
from kraft_controller.wire.work import (
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
    Sync,
    Why,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TWO, THREE = (BrokerId(2),), (BrokerId(3),)
FENCE = Check(znodes.CONTROLLER_EPOCH, Version(3))


def played(ask: Ask, *heard: Result) -> list[Operation]:
    """All that it asks, one after the other, when it hears this."""
    work = Asking(Fence(Version(3))).answer([ask])
    asked: list[Operation] = []
    try:
        [operation] = next(work)
        asked.append(operation)
        for each in heard:
            [operation] = work.send([each])
            asked.append(operation)
    except StopIteration:
        pass
    return asked


def node(wanted: dict[TopicPartition, tuple[BrokerId, ...]], version: int) -> Node:
    return Node(znodes.reassignment(wanted), Version(version), 1, 0, 1)


READ = Get(znodes.REASSIGN)


def test_a_request_goes_only_as_it_was_read() -> None:
    asked = played(
        asks.DropMoves((T0,)),
        node({T0: TWO}, 5),
        Failed(Why.BAD_VERSION, 1),
        node({T0: TWO, T1: TWO}, 6),
        Done((None, Version(7))),
    )
    assert asked[:3] == [READ, Multi((FENCE, Delete(znodes.REASSIGN, Version(5)))), READ]
    assert asked[3] == Multi((FENCE, Set(znodes.REASSIGN, znodes.reassignment({T1: TWO}), Version(6))))


def test_what_is_wanted_since_is_not_written_over() -> None:
    assert played(asks.DropMoves((T0,), (TWO,)), node({T0: THREE}, 5)) == [READ]


def test_whether_it_is_gone_is_looked_at_when_the_answer_is_lost() -> None:
    gone = Failed(Why.NO_NODE)
    asked = played(asks.DropMoves((T0,)), node({T0: TWO}, 5), Failed(Why.UNKNOWN), gone)
    assert asked == [READ, Multi((FENCE, Delete(znodes.REASSIGN, Version(5)))), READ]


@pytest.mark.parametrize(
    ("there", "meant"),
    [
        (Node(b"mine", Version(6), 1, 0, 1), Version(6)),
        (Node(b"another's", Version(6), 1, 0, 1), Failed(Why.BAD_VERSION)),
        (Node(b"mine", Version(7), 1, 0, 1), Failed(Why.BAD_VERSION)),
        (Failed(Why.NO_NODE), Failed(Why.NO_NODE)),
    ],
    ids=["as it was to be", "somebody else's in its place", "written once more since", "gone"],
)
def test_what_stands_there_tells_what_became_of_a_change_whose_answer_was_lost(
    there: Node | Failed, meant: Version | Failed
) -> None:
    work = Fence(Version(3)).set("/a", b"mine", Version(5))
    assert next(work) == [Multi((FENCE, Set("/a", b"mine", Version(5))))]
    assert work.send([Failed(Why.UNKNOWN)]) == [Sync("/a")]
    assert work.send([Done(())]) == [Get("/a")]
    with pytest.raises(StopIteration) as told:
        work.send([there])
    assert told.value.value == meant


def test_a_change_that_never_came_there_is_made_again() -> None:
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


def test_what_comes_below_a_topic_while_it_is_deleted_goes_too() -> None:
    asked = played(
        asks.ForgetTopic("t"),
        *(NOTHING, FULL),
        *(Listing(("late",)), NOTHING, Failed(Why.UNKNOWN), Failed(Why.NO_NODE, 1), Done((None, None))),
        *(Done((None, None)), Done((None, None))),
    )
    late = f"{TOPIC}/late"
    first = [Children(TOPIC), gone(TOPIC)]
    again = [Children(TOPIC), Children(late), gone(late), gone(late), gone(TOPIC)]
    assert asked == [*first, *again, gone(CONFIG), gone(REQUEST)]


def test_the_request_to_delete_a_topic_stays_as_long_as_something_is_below_it() -> None:
    work = Asking(Fence(Version(3))).answer([asks.ForgetTopic("t")])
    asked = next(work)
    with pytest.raises(StopIteration) as end:
        for _ in range(1000):
            asked = work.send([NOTHING if isinstance(asked[0], Children) else FULL])
            assert asked[0] in (Children(TOPIC), gone(TOPIC))
    assert end.value.value == [asks.Changed()]


def test_notes_below_a_node_that_was_made_again_are_all_news() -> None:
    """The store counts anew there: by their numbers alone they would have been seen."""
    above, path = Node(b"", Version(0), 20, 0), "/config/changes/config_change_0000000000"
    note = Node(znodes.config_change("topics", "t"), Version(0), 21, 0)
    ask = asks.TakeConfigChanges(seen=7, of=10)
    work = Asking(Fence(Version(3))).answer([ask])
    assert next(work) == [Exists(znodes.CONFIG_CHANGES)]
    assert work.send([above]) == [Children(znodes.CONFIG_CHANGES, watch=True)]
    assert work.send([Listing(("config_change_0000000000",))]) == [Get(path)]
    with pytest.raises(StopIteration) as end:
        work.send([note])
    assert end.value.value == [asks.ConfigChanges(("topics/t",), 0, 20)]


@pytest.mark.parametrize("there", [True, False])
def test_the_configuration_of_a_topic_that_is_gone_goes_with_the_request(there: bool) -> None:
    """Whoever deleted it may have died between the two. Where the topic stands, only the request is dropped."""
    found: Result = Node(b"{}", Version(0), 1, 0) if there else Failed(Why.NO_NODE)
    asked = played(asks.DropDeletion("t"), found, Done((None,)), Done((None,)))
    gone = [Multi((FENCE, Delete(path))) for path in ((REQUEST,) if there else (CONFIG, REQUEST))]
    assert asked[: len(gone) + 1] == [Exists(TOPIC), *gone]
