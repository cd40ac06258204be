from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_controller.core.commands import Answer, LeaderAndIsr, Numbered, Role, Stop, StopReplica, UpdateMetadata
from kraft_controller.core.names import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicId,
    TopicPartition,
    Version,
)
from kraft_controller.core.state import Assignment, Broker, Endpoint, PartitionState, Recovery
from kraft_controller.wire.command_frames import Frame, FrameError, decode, encode

int32 = st.integers(-2, (1 << 31) - 1)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
names = st.text("abc._-", min_size=1, max_size=5)
ids = st.lists(int32.map(BrokerId), max_size=4).map(tuple)
where = st.builds(TopicPartition, names, st.integers(0, 1 << 31))
states = st.builds(
    PartitionState, int32.map(BrokerId), ids, int64.map(LeaderEpoch), int64.map(ControllerEpoch),
    st.sampled_from(Recovery), int64.map(Version),
)  # fmt: skip
roles = st.lists(
    st.builds(Role, where, st.none() | names.map(TopicId), states, st.builds(Assignment, ids, ids, ids), st.booleans()),
    max_size=3,
).map(tuple)
brokers = st.lists(
    st.builds(
        Broker, int32.map(BrokerId), int64.map(BrokerEpoch),
        st.lists(st.builds(Endpoint, names, names, st.integers(-1, 65535)), max_size=2).map(tuple),
        st.dictionaries(names, names, max_size=2), st.none() | names,
        st.dictionaries(names, st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=2),
    ),
    max_size=2,
).map(tuple)  # fmt: skip
head = (int32.map(BrokerId), st.integers(0, 99).map(ControllerEpoch), int64.map(BrokerEpoch))
commands = st.one_of(
    st.builds(LeaderAndIsr, *head, st.booleans(), roles, brokers),
    st.builds(UpdateMetadata, *head, roles, brokers),
    st.builds(
        StopReplica, *head,
        st.lists(st.builds(Stop, where, int64.map(LeaderEpoch), st.booleans()), max_size=3).map(tuple),
    ),
)  # fmt: skip
frames = st.one_of(
    st.builds(Numbered, st.integers(0, 1 << 40), commands, st.integers(-1, 99).map(BrokerId)),
    st.builds(
        Answer, st.integers(0, 9), st.integers(-1, 200), st.dictionaries(where, st.integers(-1, 200), max_size=3)
    ),
)


@given(frame=frames)
def test_frames_round_trip(frame: Frame) -> None:
    assert decode(encode(frame)) == frame


@given(frame=frames, data=st.data())
def test_field_of_another_type_is_refused(frame: Frame, data: st.DataObject) -> None:
    value: Any = msgpack.unpackb(encode(frame))
    place = data.draw(st.integers(0, len(value) - 1))
    value[place] = data.draw(st.sampled_from(["x", [[]], {}, 1.5]))
    with pytest.raises(FrameError, match="malformed frame"):
        decode(msgpack.packb(value))


@given(data=st.binary(max_size=60))
def test_noise(data: bytes) -> None:
    with pytest.raises(FrameError):
        decode(data)


@given(frame=frames, cut=st.integers(1, 40))
def test_truncated_frame_is_refused(frame: Frame, cut: int) -> None:
    data = encode(frame)
    with pytest.raises(FrameError):
        decode(data[:-cut])


def test_missing_or_additional_field_is_refused() -> None:
    value: Any = msgpack.unpackb(encode(Answer(1, 0, {})))
    wrongs: list[object] = [[*value, 0], value[:-1], [], {}]
    for wrong in wrongs:
        with pytest.raises(FrameError):
            decode(msgpack.packb(wrong))
