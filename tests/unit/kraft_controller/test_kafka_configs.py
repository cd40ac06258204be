"""The options of Kafka's own tool, in ours."""

from __future__ import annotations

import pytest

from kraft_controller.cli.kafka_configs import as_verbs
from zab.cli.kit.failures import Misused


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        ("describe topics t", "describe topics t"),
        ("--alter --entity-type topics --entity-name t --add-config a=1,b=[2,3]",
         "alter topics t --set a=1 --set b=2,3"),
        ("--alter --topic t --delete-config a,b --store h:1", "alter topics t --store h:1 --unset a --unset b"),
        ("--describe --entity-type brokers --entity-default --all", "describe brokers --default --all"),
        ("--describe --entity-type users --zookeeper h:1/x", "describe users --store h:1/x"),
        ("--alter --user u --client c --add-config x=1", "alter users u --client c --set x=1"),
        ("--alter --user u --add-config SCRAM-SHA-256=[iterations=8192,password=p]",
         "alter users u --set SCRAM-SHA-256=[iterations=8192,password=p]"),
        ("--describe --user u --json --auth digest:a:b", "describe users u --json --auth digest:a:b"),
    ],
)  # fmt: skip
def test_kafka_options_are_translated(given: str, ours: str) -> None:
    assert as_verbs(given.split()) == ours.split()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("--alter --describe --topic t", "use either --alter or --describe, not both"),
        ("--alter --add-config a=1", "--entity-type"),
        ("--alter --entity-type topics --entity-name a --entity-name b", "each --entity-type"),
        ("--alter --topic t --broker 1 --add-config a=1", "only users and clients"),
        ("--alter --topic t --add-config a", "from character 1: expected key=value"),
        ("--alter --topic t --bootstrap-server h:1", "in the store"),
        ("--alter --topic", "requires an argument"),
    ],
)
def test_contradictory_options_are_refused(given: str, why: str) -> None:
    with pytest.raises(Misused, match=why):
        as_verbs(given.split())
