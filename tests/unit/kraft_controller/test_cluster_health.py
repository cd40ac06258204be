"""What operators ask first, counted on a picture and said in Prometheus' words."""

from __future__ import annotations

from kraft_controller.core.cluster_health import health
from kraft_controller.core.controller_context import ControllerSettings
from kraft_controller.core.names import BrokerEpoch, BrokerId, TopicPartition
from kraft_controller.core.topics.alter_partition import IsrChange, IsrMember
from kraft_controller.runtime.controller_metrics import exposition
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
    controller.run(controller.term.brokers.process(left))


def test_healthy_cluster() -> None:
    found = health(cluster().context)
    assert (found.brokers, found.topics, found.partitions) == (3, 1, 3)
    assert (found.offline, found.under_replicated, found.under_min_isr, found.imbalanced) == (0, 0, 0, 0)
    assert found.led_by == {1: 1, 2: 1, 3: 1}
    assert found.held_by == {1: 3, 2: 2, 3: 3}
    assert found.worries == ()


def test_failed_brokers_are_counted() -> None:
    controller = cluster(**{"min.insync.replicas": "2"})
    without(controller, 3)
    found = health(controller.context)
    # t-2 has two replicas, so two is all that can be asked of it.
    assert (found.under_replicated, found.at_min_isr, found.under_min_isr) == (3, 2, 1)
    assert (found.offline, found.imbalanced) == (0, 1)
    without(controller, 1, 2)
    found = health(controller.context)
    assert (found.offline, found.under_min_isr) == (3, 3)
    assert found.worries == ("3 partitions without a leader", "3 partitions that refuse acks=all")


def test_min_isr_default_applies_to_topics_that_do_not_set_it() -> None:
    store = Store()
    store.topic("t", (1, 2, 3))
    controller = Controller(store, settings=ControllerSettings(min_isr=3)).take_over()
    assert health(controller.context).at_min_isr == 1


def test_failed_disk_and_waiting_deletion_are_counted() -> None:
    controller = cluster()
    controller.run(controller.term.brokers.replicas_failed(BrokerId(2), [TopicPartition("t", 1)]))
    assert health(controller.context).offline_replicas == 1
    assert health(controller.context).worries == ("1 replica that its broker cannot use",)
    controller.store.deletions.append("t")
    controller.run(controller.term.deletion.process_requests())
    found = health(controller.context)
    assert (found.deleting, found.waiting_for_deletion, found.partitions, found.offline) == (1, 1, 0, 0)


def test_exposition_groups_samples_with_their_labels() -> None:
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


def test_shrunk_isr_is_counted_at_once() -> None:
    controller = cluster()
    where = TopicPartition("t", 0)
    state = controller.context.states[where]
    change = IsrChange(where, state.leader_epoch, state.version, (IsrMember(BrokerId(1)),))
    controller.run(controller.term.isr_changes.process(BrokerId(1), BrokerEpoch(1), [change]))
    assert health(controller.context).under_replicated == 1
