"""The health of an ensemble: which members take part, and what that means for the whole."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.service.test_operator_warnings import HEALTHY as HEALTHY_DISK
from tests.unit.service.test_operator_warnings import status
from zab.core.messages import State, Veto
from zab.core.zxid import Epoch, ServerId, make
from zab.service.health.ensemble_health import (
    DEGRADED,
    DOWN,
    HEALTHY,
    STALE_MS,
    STARTING,
    absence,
    health,
    is_settled,
    seen_mode,
    takes_part,
)
from zab.service.health.operator_warnings import operator_warnings
from zab.service.health.status import RoleChange

ME, OTHER = ServerId(1), ServerId(2)
LEADS: dict[str, Any] = {"role": RoleChange(State.LEADING, Epoch(3), ME, True)}


def test_server_takes_part_as_it_sees_itself() -> None:
    assert takes_part(ME, status(), None, 0)


def test_leader_counts_the_synchronized_members_whatever_they_report() -> None:
    assert takes_part(OTHER, status(synced=(OTHER,), **LEADS), None, 0)
    assert not takes_part(OTHER, status(**LEADS), 0, 3)


@pytest.mark.parametrize(
    ("age_ms", "epoch", "counts"), [(0, 3, True), (STALE_MS, 3, False), (None, 3, False), (0, 2, False)]
)
def test_follower_counts_members_with_a_fresh_report_of_its_epoch(age_ms: int | None, epoch: int, counts: bool) -> None:
    assert takes_part(OTHER, status(serving=True), age_ms, epoch) is counts


def test_server_that_vetoes_claims_nothing_about_the_others() -> None:
    veto = Veto(OTHER, Epoch(3), make(0, 0), make(1, 5), make(1, 5), 5)
    vetoing = status(role=RoleChange(State.LOOKING, Epoch(3), None, False, veto))
    assert seen_mode(ME, vetoing, "looking", 0, 3) == "vetoing"
    for age_ms in (0, STALE_MS, None):
        assert seen_mode(OTHER, vetoing, "leader", age_ms, 3) == "unknown"
        assert not takes_part(OTHER, vetoing, age_ms, 3)
    (only,) = operator_warnings(vetoing, HEALTHY_DISK, None, ())
    assert only.startswith("veto: this server stays out of the ensemble: ")


@pytest.mark.parametrize(
    ("age_ms", "epoch", "mode"), [(0, 3, "follower"), (0, 2, "lost"), (STALE_MS, 3, "unreachable")]
)
def test_mode_of_a_member_tells_whether_it_takes_part(age_ms: int, epoch: int, mode: str) -> None:
    assert seen_mode(OTHER, status(serving=True), "follower", age_ms, epoch) == mode


def test_server_without_a_leader_counts_reports_of_any_epoch() -> None:
    assert takes_part(OTHER, status(), 0, 2)


@pytest.mark.parametrize(
    ("taking_part", "serving", "warned", "found"),
    [
        ([True, True], False, False, DOWN),
        ([True, True], True, True, DEGRADED),
        ([True, False], True, False, STARTING),
        ([True, True], True, False, HEALTHY),
    ],
)
def test_health_is_that_of_the_worst_finding(taking_part: list[bool], serving: bool, warned: bool, found: str) -> None:
    assert health(taking_part, serving=serving, warned=warned) == found


def test_member_is_missing_once_the_server_has_served_for_a_while() -> None:
    assert not is_settled(STALE_MS)
    assert is_settled(STALE_MS + 1)
    assert absence(None) == "it is not in the running ensemble; no report so far"
    assert absence(7_900) == "it is not in the running ensemble; last report 7 s ago"
