"""Numbers of errors: clients act on them, so not one may be another's."""

from __future__ import annotations

import pytest

from replica.core.errors import ErrorCode, KafkaError, OffsetOutOfRange


def test_there_is_a_name_for_each_number_up_to_the_last() -> None:
    assert [code.value for code in ErrorCode] == list(range(-1, 122))


@pytest.mark.parametrize(
    ("code", "number"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, 6),
        (ErrorCode.NOT_COORDINATOR, 16),
        (ErrorCode.UNSUPPORTED_VERSION, 35),
        (ErrorCode.FENCED_LEADER_EPOCH, 74),
        (ErrorCode.MEMBER_ID_REQUIRED, 79),
        (ErrorCode.UNKNOWN_TOPIC_ID, 100),
    ],
)
def test_landmarks(code: ErrorCode, number: int) -> None:
    assert code == number


def test_errors_that_may_pass_are_retriable() -> None:
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER.retriable
    assert ErrorCode.NOT_ENOUGH_REPLICAS.retriable
    assert not ErrorCode.MESSAGE_TOO_LARGE.retriable


def test_error_shows_its_name_and_cause() -> None:
    assert str(KafkaError(ErrorCode.INVALID_CONFIG, "retention.ms: 'x' is no number")) == (
        "INVALID_CONFIG: retention.ms: 'x' is no number"
    )
    assert str(KafkaError(ErrorCode.NONE)) == "NONE"
    assert OffsetOutOfRange("7").code is ErrorCode.OFFSET_OUT_OF_RANGE
