"""The size of the composition of a broker."""

from __future__ import annotations

from attrs import fields

from replica.runtime.broker_parts import BrokerParts

PARTS_MAX = 15
"""A part that only one module uses belongs to that module."""


def test_a_broker_has_at_most_fifteen_parts() -> None:
    assert len(fields(BrokerParts)) <= PARTS_MAX
