"""`zab-broker dev` configures its brokers as `zab-broker serve` does, so that tools see every key of a file."""

from __future__ import annotations

from pathlib import Path

from replica.cli.dev_command import configs
from replica.runtime.configuration.config_layers import Layers, of_broker
from zab.cli.dev import Layout


def test_tools_see_the_listeners_and_the_directories_of_each_broker() -> None:
    made = configs(Path("a,b"), Layout(3, 2181), 3, 9092)
    for number, config in enumerate(made, 1):
        assert config.id == number
        assert config.log_dirs == (Path(f"a,b/brokers/{number}"),)
        listed = {each.name: each for each in of_broker(Layers({}, {}, config.settings))}
        listeners = listed["listeners"]
        assert (listeners.value, listeners.source, listeners.read_only) == (
            f"PLAINTEXT://127.0.0.1:{9091 + number}", 4, True,
        )  # fmt: skip
        assert "advertised.listeners" in listed
        assert listed["broker.id"].value == str(number)


def test_fewer_than_three_brokers_have_as_many_replicas_of_a_topic() -> None:
    for brokers, in_sync in ((1, 1), (2, 1), (3, 2), (4, 2)):
        made = configs(Path("data"), Layout(1, 2181), brokers, 9092)
        copies = min(brokers, 3)
        for config in made:
            assert (config.replication_factor, config.log.min_insync_replicas) == (copies, in_sync)
            assert config.control.min_isr == config.replication.min_insync == in_sync
            assert (config.offsets.factor, config.transactions_topic.factor) == (copies, copies)
