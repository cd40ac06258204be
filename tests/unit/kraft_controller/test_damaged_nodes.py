"""What cannot be read is said once, is left, and when it is mended nothing of the time between stays wrong."""

from __future__ import annotations

import pytest
from attrs import evolve

from kraft_controller.core import controller_events as events
from kraft_controller.core.controller_store import Damaged
from kraft_controller.core.names import BrokerEpoch, BrokerId, TopicPartition, Version
from kraft_controller.core.operator_log import OperatorLog
from tests.unit.kraft_controller.cluster import Controller, Store, broker

T0 = TopicPartition("t", 0)
TORN = "/brokers/topics/t: not JSON"


def registered(store: Store) -> dict[BrokerId, BrokerEpoch]:
    return {known.id: known.epoch for known in store.brokers.values()}


def test_damaged_topic_is_reported_once() -> None:
    store = Store()
    store.topic("t", (1, 2))
    store.damaged["t"] = TORN
    controller = Controller(store).take_over()
    for number in range(5):
        store.topic(f"u{number}", (2, 1))
        controller.run(controller.term.topic_changes.process_list())
    assert controller.noted().count("damaged") == 1


def test_each_damaging_write_is_reported_once() -> None:
    log = OperatorLog(lambda message: None)
    for answer in (Damaged(TORN, 7), Damaged(TORN, 7), Damaged(TORN, 9), Damaged("/brokers/topics/u: not JSON", 9)):
        log.report_damage(answer)
    assert len(log.messages) == 3


def test_illegal_topic_name_is_reported_once() -> None:
    store = Store()
    store.topic("a b", (1, 2))
    controller = Controller(store).take_over()
    controller.run(controller.term.topic_changes.process_list())
    assert controller.noted().count("damaged") == 1
    assert controller.context.topics == {}


def test_failed_brokers_leave_the_isr_of_a_repaired_state() -> None:
    """They died while it could not be read, so nobody has taken them out yet."""
    store = Store()
    store.topic("t", (1, 2, 3))
    Controller(store).take_over()
    store.damaged[T0] = "/brokers/topics/t/partitions/0/state: not JSON"
    controller = Controller(store, epoch=2).take_over()
    del store.brokers[BrokerId(3)]
    controller.run(controller.term.brokers.process(registered(store)))
    assert store.states[T0].isr == (1, 2, 3)
    del store.damaged[T0]
    controller.handle(events.PartitionStateChanged(T0))
    assert (store.states[T0].leader, store.states[T0].isr) == (1, (1, 2))


def test_deletion_of_a_damaged_topic_is_refused() -> None:
    store = Store()
    store.topic("t", (1, 2))
    store.damaged["t"] = TORN
    controller = Controller(store).take_over()
    store.deletions.append("t")
    controller.run(controller.term.deletion.process_requests())
    assert store.deletions == []
    assert "t" in store.topics
    assert "deletion_refused" in controller.noted()


def test_no_command_is_full_while_a_node_is_damaged() -> None:
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
        mending = events.TopicModified("t") if damage == "t" else events.PartitionStateChanged(T0)
        controller.handle(mending)
        del store.brokers[BrokerId(2)]
        controller.run(controller.term.brokers.process(registered(store)))
        controller.heard()
        store.brokers[BrokerId(2)] = broker(2, epoch=5)
        controller.run(controller.term.brokers.process(registered(store)))
        assert [command.full for to, command in controller.heard() if to == 2 and hasattr(command, "full")] == [
            True
        ] * 2
        store.brokers[BrokerId(2)] = broker(2)


def test_repaired_topic_gets_a_new_leader_epoch() -> None:
    """They were told by an earlier controller that all they hold is something else."""
    store = Store()
    store.topic("t", (1, 2))
    Controller(store).take_over()
    before = store.states[T0]
    store.damaged["t"] = TORN
    controller = Controller(store, epoch=2).take_over()
    controller.heard()
    del store.damaged["t"]
    controller.handle(events.TopicModified("t"))
    assert (store.states[T0].leader, store.states[T0].isr) == (before.leader, before.isr)
    assert store.states[T0].leader_epoch == before.leader_epoch + 1
    assert {to for to, where in controller.roles() if where == "t-0"} == {1, 2}


def test_topic_written_by_an_older_tool_keeps_its_id() -> None:
    """With another one its logs would be those of another topic, and put aside."""
    store = Store()
    store.topic("t", (1, 2))
    controller = Controller(store).take_over()
    topic = store.topics["t"]
    store.topics["t"] = evolve(topic, id=None, version=Version(topic.version + 1))
    controller.run(controller.term.topic_changes.process_modification("t"))
    assert store.topics["t"].id == controller.context.topics["t"].id == topic.id


# -- brokers that did not hear, and brokers that nobody knows ----------------------------------------------


def test_queue_overflow_resends_the_full_state() -> None:
    store = Store()
    store.topic("t", (1, 2), (2, 1))
    store.topic("gone", (2, 3))
    controller = Controller(store).take_over()
    store.deletions.append("gone")
    controller.run(controller.term.deletion.process_requests())
    assert (2, "gone-0", True) in controller.stops()
    before = dict(store.states)
    overflowed = events.CommandQueueOverflowed(BrokerId(2), BrokerEpoch(1))
    controller.handle(overflowed)
    said = [(to, command) for to, command in controller.sent.commands if to == 2]
    assert {type(command).__name__ for _, command in said} == {"LeaderAndIsr", "UpdateMetadata", "StopReplica"}
    assert all(getattr(command, "full", True) for _, command in said)
    assert (2, "gone-0", True) in controller.stops()
    assert store.states == before  # it leads and follows as it did
    controller.handle(evolve(overflowed, epoch=BrokerEpoch(9)))
    assert controller.heard() == []  # that was another life


def test_shutdown_request_of_an_unregistered_broker_is_refused() -> None:
    store = Store()
    store.brokers[BrokerId(2)] = broker(2, epoch=7)
    controller = Controller(store).take_over()
    with pytest.raises(events.BrokerNotAvailable, match="broker 9 is not registered"):
        controller.handle(events.ControlledShutdownRequested(BrokerId(9), BrokerEpoch(1)))
    with pytest.raises(events.StaleBrokerEpoch):
        controller.handle(events.ControlledShutdownRequested(BrokerId(2), BrokerEpoch(6)))
