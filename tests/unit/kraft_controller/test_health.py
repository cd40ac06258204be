"""What operators ask first, counted on a picture and said in Prometheus' words."""

from __future__ import annotations

from kraft_controller.core import deletion, isr, members
from kraft_controller.core.asks import Brokers
from kraft_controller.core.desk import Settings
from kraft_controller.core.health import health
from kraft_controller.core.names import BrokerEpoch, BrokerId, TopicPartition
from kraft_controller.runtime.metrics import exposition
from tests.unit.kraft_controller.cluster import Controller, Store
from zab.admin.exposition import GAUGE, MetricSample


def cluster(**configs: str) -> Controller:
    store = Store()
    store.topic("t", (1, 2, 3), (2, 3, 1), (3, 1))
    store.configs["t"] = dict(configs)
    return Controller(store).take_over()


def without(controller: Controller, *dead: int) -> None:
    left = {ident: known.epoch for ident, known in controller.store.brokers.items() if ident not in dead}
    controller.store.brokers = {i: b for i, b in controller.store.brokers.items() if i not in dead}
    controller.run(members.brokers_changed(controller.desk, Brokers(left).epochs))


def test_all_is_well() -> None:
    found = health(cluster().desk)
    assert (found.brokers, found.topics, found.partitions) == (3, 1, 3)
    assert (found.offline, found.under_replicated, found.under_min_isr, found.imbalanced) == (0, 0, 0, 0)
    assert found.led_by == {1: 1, 2: 1, 3: 1}
    assert found.held_by == {1: 3, 2: 2, 3: 3}
    assert found.worries == ()


def test_one_broker_is_gone_and_then_another() -> None:
    controller = cluster(**{"min.insync.replicas": "2"})
    without(controller, 3)
    found = health(controller.desk)
    # t-2 has two replicas, so two is all that can be asked of it.
    assert (found.under_replicated, found.at_min_isr, found.under_min_isr) == (3, 2, 1)
    assert (found.offline, found.imbalanced) == (0, 1)
    without(controller, 1, 2)
    found = health(controller.desk)
    assert (found.offline, found.under_min_isr) == (3, 3)
    assert found.worries == ("3 partitions without a leader", "3 partitions that refuse acks=all")


def test_the_brokers_own_min_isr_is_for_topics_that_say_nothing() -> None:
    store = Store()
    store.topic("t", (1, 2, 3))
    controller = Controller(store, settings=Settings(min_isr=3)).take_over()
    assert health(controller.desk).at_min_isr == 1


def test_a_failed_disk_and_a_deletion_that_waits() -> None:
    controller = cluster()
    controller.run(members.replicas_failed(controller.desk, BrokerId(2), [TopicPartition("t", 1)]))
    assert health(controller.desk).offline_replicas == 1
    assert health(controller.desk).worries == ("1 replica on a failed disk",)
    controller.store.deletions.append("t")
    controller.run(deletion.requested(controller.desk))
    found = health(controller.desk)
    assert (found.deleting, found.waiting_for_deletion, found.partitions, found.offline) == (1, 1, 0, 0)


def test_what_is_measured_is_said_once_each_with_its_labels() -> None:
    some = [
        MetricSample("a_total", "counter", "of a", 3),
        MetricSample("b", GAUGE, "of b", 0.25, {"broker": "1"}),
        MetricSample("b", GAUGE, "of b", True, {"broker": 'odd"\\\n'}),
    ]
    assert exposition(some).splitlines() == [
        "# HELP a_total of a",
        "# TYPE a_total counter",
        "a_total 3.0",
        "# HELP b of b",
        "# TYPE b gauge",
        'b{broker="1"} 0.25',
        'b{broker="odd\\"\\\\\\n"} 1.0',
    ]


def test_an_isr_that_a_leader_shrank_counts_at_once() -> None:
    controller = cluster()
    where = TopicPartition("t", 0)
    state = controller.desk.cluster.states[where]
    wish = isr.Wish(where, state.leader_epoch, state.version, (isr.Member(BrokerId(1)),))
    controller.run(isr.alter(controller.desk, BrokerId(1), BrokerEpoch(1), [wish]))
    assert health(controller.desk).under_replicated == 1
