"""What cannot be read is said once, is left, and when it is mended nothing of the time between stays wrong."""

from __future__ import annotations

import pytest
from attrs import evolve

from kraft_controller.core import deletion, events, members, topics
from kraft_controller.core.asks import Damaged
from kraft_controller.core.desk import Desk
from kraft_controller.core.names import BrokerEpoch, BrokerId, ControllerEpoch, TopicPartition, Version
from tests.unit.kraft_controller.cluster import Controller, Store, broker

T0 = TopicPartition("t", 0)
TORN = "/brokers/topics/t: no JSON"


def registered(store: Store) -> dict[BrokerId, BrokerEpoch]:
    return {known.id: known.epoch for known in store.brokers.values()}


def test_a_damaged_topic_is_said_once_however_often_topics_come_and_go() -> None:
    store = Store()
    store.topic("t", (1, 2))
    store.damaged["t"] = TORN
    controller = Controller(store).take_over()
    for number in range(5):
        store.topic(f"u{number}", (2, 1))
        controller.run(topics.topics_changed(controller.desk, controller.new_id))
    assert controller.noted().count("damaged") == 1


def test_and_again_when_somebody_has_damaged_it_again() -> None:
    desk = Desk(BrokerId(1), ControllerEpoch(1))
    for answer in (Damaged(TORN, 7), Damaged(TORN, 7), Damaged(TORN, 9), Damaged("/brokers/topics/u: no JSON", 9)):
        desk.note_damaged(answer.why, answer.written)
    assert len(desk.notes) == 3


def test_a_name_that_no_topic_may_have_is_said_once() -> None:
    store = Store()
    store.topic("a b", (1, 2))
    controller = Controller(store).take_over()
    controller.run(topics.topics_changed(controller.desk, controller.new_id))
    assert controller.noted().count("damaged") == 1
    assert controller.desk.cluster.topics == {}


def test_the_dead_leave_the_isr_of_a_partition_whose_state_is_mended() -> None:
    """They died while it could not be read, so nobody has taken them out yet."""
    store = Store()
    store.topic("t", (1, 2, 3))
    Controller(store).take_over()
    store.damaged[T0] = "/brokers/topics/t/partitions/0/state: no JSON"
    controller = Controller(store, epoch=2).take_over()
    del store.brokers[BrokerId(3)]
    controller.run(members.brokers_changed(controller.desk, registered(store)))
    assert store.states[T0].isr == (1, 2, 3)
    del store.damaged[T0]
    controller.run(events.handle(controller.desk, events.StateChanged(T0), controller.new_id))
    assert (store.states[T0].leader, store.states[T0].isr) == (1, (1, 2))


def test_a_topic_that_cannot_be_read_is_not_deleted_and_it_is_said() -> None:
    store = Store()
    store.topic("t", (1, 2))
    store.damaged["t"] = TORN
    controller = Controller(store).take_over()
    store.deletions.append("t")
    controller.run(deletion.requested(controller.desk))
    assert store.deletions == []
    assert "t" in store.topics
    assert "deletion_refused" in controller.noted()


def test_while_something_cannot_be_read_nobody_lets_go_of_it() -> None:
    """What a new controller names is not all there is: who holds the rest goes on with it, and so do clients."""
    store = Store()
    store.topic("t", (1, 2))
    store.topic("u", (2, 1))
    Controller(store).take_over()
    for damage in ("t", TopicPartition("t", 0)):
        store.damaged = {damage: TORN}
        controller = Controller(store, epoch=2).take_over()
        assert not any(getattr(command, "full", False) for _, command in controller.heard())
        store.damaged.clear()
        mending = events.TopicModified("t") if damage == "t" else events.StateChanged(T0)
        controller.run(events.handle(controller.desk, mending, controller.new_id))
        del store.brokers[BrokerId(2)]
        controller.run(members.brokers_changed(controller.desk, registered(store)))
        controller.heard()
        store.brokers[BrokerId(2)] = broker(2, epoch=5)
        controller.run(members.brokers_changed(controller.desk, registered(store)))
        assert [command.full for to, command in controller.heard() if to == 2 and hasattr(command, "full")] == [
            True
        ] * 2
        store.brokers[BrokerId(2)] = broker(2)


def test_what_is_mended_is_news_to_those_who_have_let_go_of_it() -> None:
    """They were told by an earlier controller that all they hold is something else."""
    store = Store()
    store.topic("t", (1, 2))
    Controller(store).take_over()
    before = store.states[T0]
    store.damaged["t"] = TORN
    controller = Controller(store, epoch=2).take_over()
    controller.heard()
    del store.damaged["t"]
    controller.run(events.handle(controller.desk, events.TopicModified("t"), controller.new_id))
    assert (store.states[T0].leader, store.states[T0].isr) == (before.leader, before.isr)
    assert store.states[T0].leader_epoch == before.leader_epoch + 1
    assert {to for to, where in controller.roles() if where == "t-0"} == {1, 2}


def test_a_topic_that_an_older_tool_wrote_keeps_its_id() -> None:
    """With another one its logs would be those of another topic, and put aside."""
    store = Store()
    store.topic("t", (1, 2))
    controller = Controller(store).take_over()
    topic = store.topics["t"]
    store.topics["t"] = evolve(topic, id=None, version=Version(topic.version + 1))
    controller.run(topics.topic_changed(controller.desk, "t", controller.new_id))
    assert store.topics["t"].id == controller.desk.cluster.topics["t"].id == topic.id


# -- brokers that did not hear, and brokers that nobody knows ----------------------------------------------


def test_a_broker_to_which_too_much_was_to_be_said_is_told_everything_anew() -> None:
    store = Store()
    store.topic("t", (1, 2), (2, 1))
    store.topic("gone", (2, 3))
    controller = Controller(store).take_over()
    store.deletions.append("gone")
    controller.run(deletion.requested(controller.desk))
    assert (2, "gone-0", True) in controller.stops()
    before = dict(store.states)
    overflowed = events.LinkOverflowed(BrokerId(2), BrokerEpoch(1))
    controller.run(events.handle(controller.desk, overflowed, controller.new_id))
    said = [(to, command) for to, command in controller.said if to == 2]
    assert {type(command).__name__ for _, command in said} == {"LeaderAndIsr", "UpdateMetadata", "StopReplica"}
    assert all(getattr(command, "full", True) for _, command in said)
    assert (2, "gone-0", True) in controller.stops()
    assert store.states == before  # it leads and follows as it did
    controller.run(events.handle(controller.desk, evolve(overflowed, epoch=BrokerEpoch(9)), controller.new_id))
    assert controller.heard() == []  # that was another life


def test_who_is_not_registered_cannot_be_let_go_and_a_former_life_cannot_either() -> None:
    store = Store()
    store.brokers[BrokerId(2)] = broker(2, epoch=7)
    controller = Controller(store).take_over()
    with pytest.raises(events.BrokerNotAvailable, match="broker 9 is not registered"):
        controller.run(
            events.handle(controller.desk, events.ShutdownAsked(BrokerId(9), BrokerEpoch(1)), controller.new_id)
        )
    with pytest.raises(events.StaleBrokerEpoch):
        controller.run(
            events.handle(controller.desk, events.ShutdownAsked(BrokerId(2), BrokerEpoch(6)), controller.new_id)
        )
