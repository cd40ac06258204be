"""The reports of a member's role: one for each change, at the end of its turn."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from zab.core.messages import State
from zab.core.zxid import Epoch, ServerId
from zab.service.health.role_reporter import RoleReporter
from zab.service.health.status import RoleChange

LOOKING = (State.LOOKING, Epoch(1), None, False)
FOLLOWING = (State.FOLLOWING, Epoch(2), ServerId(3), True)


class Reports:
    """A reporter of a node whose status the test sets, with its log."""

    def __init__(self) -> None:
        self.node = cast(Any, SimpleNamespace(veto=None, voting=True))
        self.become(*LOOKING)
        self.roles: list[RoleChange] = []
        self.logged: list[tuple[str, str]] = []
        self.discarded = 0
        self.it = RoleReporter(self.node, self.discard, self, self.roles.append)

    def become(self, state: State, epoch: Epoch, leader: ServerId | None, serving: bool) -> None:
        self.node.state, self.node.epoch, self.node.leader, self.node.serving = state, epoch, leader, serving
        self.node.status = lambda: (0, state, epoch, leader, serving)

    def discard(self) -> None:
        self.discarded += 1

    def say(self, event: str, level: str = "info", /, **fields: object) -> None:
        self.logged.append((event, level))

    def warn_rate_limited(self, event: str, key: object, level: str = "warning", /, **fields: object) -> None: ...


def test_each_change_of_the_role_is_reported_once() -> None:
    reports = Reports()
    reports.it.report()
    assert reports.roles == []
    reports.become(*FOLLOWING)
    reports.it.report()
    reports.it.report()
    assert reports.roles == [RoleChange(*FOLLOWING)] == [reports.it.role]
    assert reports.logged == [("role", "info")]


def test_lost_role_is_no_second_warning() -> None:
    """The node's `role_over` is the warning: it names the leader and the reason."""
    reports = Reports()
    reports.become(*FOLLOWING)
    reports.it.report()
    reports.become(*LOOKING)
    reports.it.report()
    assert reports.logged == [("role", "info"), ("role", "info")]


def test_veto_is_reported_with_the_role_that_lasts() -> None:
    reports = Reports()
    veto = reports.node.veto = object()
    reports.it.report()
    assert reports.roles == [RoleChange(*LOOKING, veto)]  # type: ignore[arg-type]
    assert reports.logged == []


def test_vote_that_is_won_back_is_logged_once() -> None:
    reports = Reports()
    reports.node.voting = False
    reports.it.report()
    reports.node.voting = True
    reports.it.report()
    reports.it.report()
    assert reports.logged == [("healed", "info")]


def test_unsent_votes_are_discarded_in_the_turn_that_ends_the_election() -> None:
    reports = Reports()
    reports.it.discard_old_votes()
    assert reports.discarded == 0
    reports.become(*FOLLOWING)
    reports.it.discard_old_votes()
    reports.it.report()
    reports.it.discard_old_votes()
    assert reports.discarded == 1
