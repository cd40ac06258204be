"""Numbers of thousands of digits are refused where they come in: Python writes and reads none of more than 4,300."""

from __future__ import annotations

import pytest

from kraft_controller.core.configuration.config_keys import TOPIC, ConfigError, read_throttled
from kraft_controller.core.configuration.throttles import Throttles
from kraft_controller.core.names import BrokerId, decimal
from kraft_controller.runtime.controller import event_of_path
from kraft_controller.wire import znodes
from tests.unit.wire.der_certificates import certificate, name
from zab.core.errors import WireError
from zab.wire.certificates import subject_of

HUGE = "9" * 5_000


def test_decimal_reads_ascii_digits_up_to_a_bound() -> None:
    assert [decimal(text) for text in ("0", "007", "2147483647")] == [0, 7, (1 << 31) - 1]
    assert [decimal(text) for text in ("", "-1", "+1", "1_0", "٣", "²", "2147483648", HUGE)] == [None] * 8
    assert decimal("9223372036854775807", (1 << 63) - 1) == (1 << 63) - 1


def test_a_change_of_a_node_with_a_huge_number_means_nothing() -> None:
    assert event_of_path(f"{znodes.BROKERS}/{HUGE}") is None
    assert event_of_path(f"{znodes.topic_path('t')}/partitions/{HUGE}/state") is None
    assert event_of_path(f"{znodes.BROKERS}/7") is not None


def test_throttled_replicas_with_huge_numbers_are_passed_over() -> None:
    assert read_throttled(f"{HUGE}:1,1:{HUGE},0:1:2,x:1,3:4") == frozenset({(3, 4)})
    throttles = Throttles(BrokerId(1))
    throttles.configure("brokers/1", {"leader.replication.throttled.rate": HUGE})
    assert throttles.leader_rate() is None
    with pytest.raises(ConfigError):
        TOPIC["leader.replication.throttled.replicas"].value(f"{HUGE}:1")


@pytest.mark.parametrize("first", [b"\x2a", b""])
def test_a_certificate_with_a_huge_object_identifier_is_refused(first: bytes) -> None:
    with pytest.raises(WireError, match="its subject cannot be read"):
        subject_of(certificate(name((first + b"\xff" * 3_000 + b"\x7f", 0x0C, b"a"))))
