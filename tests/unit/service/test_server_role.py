"""The role of a server, its times, and its name for ZooKeeper's tools."""

from __future__ import annotations

import pytest

from zab.core.messages import State
from zab.core.zxid import Epoch, ServerId
from zab.service.health.server_role import ServerRole
from zab.service.health.status import RoleChange


def role(epoch: int, state: State = State.FOLLOWING, *, serving: bool = True) -> RoleChange:
    return RoleChange(state, Epoch(epoch), ServerId(1), serving)


def test_serving_begins_anew_after_a_pause_and_in_a_new_epoch() -> None:
    it = ServerRole(100)
    seen = [it.serving_ms(150)]
    for epoch, now, serving in ((1, 200, True), (1, 300, True), (1, 400, False), (1, 500, True), (2, 600, True)):
        it.changed(role(epoch, serving=serving), now)
        seen.append(it.serving_ms(1_000))
    assert seen == [0, 800, 800, 0, 500, 400]
    assert (it.started_ms, it.leading_since_ms) == (100, 100)


def test_leading_begins_anew_in_a_new_epoch_only() -> None:
    it = ServerRole(100)
    seen = []
    for epoch, now, leading in ((1, 200, True), (1, 300, False), (1, 400, True), (3, 500, True)):
        it.changed(role(epoch, State.LEADING, serving=leading), now)
        seen.append(it.leading_since_ms)
    assert seen == [200, 200, 200, 500]


def test_server_without_a_role_neither_serves_nor_leads() -> None:
    it = ServerRole(0)
    assert (it.serving, it.leading, it.epoch) == (False, False, 0)
    assert it.mode(read_only=False, alone=True) == "looking"


@pytest.mark.parametrize(
    ("state", "serving", "alone", "mode"),
    [
        (State.LEADING, True, False, "leader"),
        (State.LEADING, True, True, "standalone"),
        (State.LEADING, False, False, "looking"),
        (State.FOLLOWING, True, False, "follower"),
        (State.OBSERVING, True, False, "observer"),
    ],
)
def test_mode_is_the_role_in_the_words_of_zookeeper(state: State, serving: bool, alone: bool, mode: str) -> None:
    it = ServerRole(0)
    it.changed(role(7, state, serving=serving), 5)
    assert it.mode(read_only=False, alone=alone) == mode
    assert it.leading is (mode in ("leader", "standalone"))


def test_server_without_a_leader_may_be_read_only() -> None:
    it = ServerRole(0)
    it.changed(role(7, State.LOOKING, serving=False), 5)
    assert it.mode(read_only=True, alone=False) == "read-only"
