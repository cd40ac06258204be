"""The controller's bench reads no more of a command than who says it and what it is."""

from __future__ import annotations

import pytest

from bench.controller.speed import head_of
from kraft_controller.core.commands import Command, LeaderAndIsr, Numbered, StopReplica, UpdateMetadata
from kraft_controller.core.names import BrokerEpoch, BrokerId, ControllerEpoch
from kraft_controller.wire.command_frames import LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA, encode

FROM = (BrokerId(3), ControllerEpoch(17), BrokerEpoch(99))


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (LeaderAndIsr(*FROM, True, (), ()), LEADER_AND_ISR),
        (UpdateMetadata(*FROM, (), (), full=True), UPDATE_METADATA),
        (StopReplica(*FROM, ()), STOP_REPLICA),
    ],
)
def test_the_head_of_a_command(command: Command, kind: int) -> None:
    assert head_of(encode(Numbered(42, command, BrokerId(5)))) == (kind, 42, 17)
