"""The outages of a server: elections, and times without service."""

from __future__ import annotations

from zab.core.messages import State
from zab.core.zxid import Epoch, ServerId
from zab.service.health.availability import ELECTIONS_KEPT, Availability, Outages, PastElection
from zab.service.health.status import RoleChange

LOOKING = RoleChange(State.LOOKING, Epoch(1), None, False)
JOINING = RoleChange(State.FOLLOWING, Epoch(2), ServerId(3), False)
SERVING = RoleChange(State.FOLLOWING, Epoch(2), ServerId(3), True)


def test_first_election_begins_with_the_server() -> None:
    it = Availability(10.0)
    assert it.role_changed(JOINING, "looking", 11.0, 0) == Outages(election_ms=1_000.0)
    assert it.role_changed(SERVING, "follower", 12.5, 777) == Outages(unavailable_ms=2_500)
    assert list(it.elections) == [PastElection(777, 2, 3, 2_500, "follower")]


def test_failed_attempt_to_follow_is_part_of_one_outage_and_two_elections() -> None:
    it = Availability(0.0)
    changes = ((JOINING, 1.0), (LOOKING, 2.0), (LOOKING, 2.5), (SERVING, 4.0))
    ended = [it.role_changed(role, "follower", now, 0) for role, now in changes]
    assert ended == [Outages(1_000.0), Outages(), Outages(), Outages(2_000.0, 4_000)]


def test_role_that_serves_on_ends_no_outage() -> None:
    it = Availability(0.0)
    it.role_changed(SERVING, "follower", 1.0, 0)
    assert it.role_changed(SERVING, "follower", 5.0, 0) == Outages()


def test_only_the_last_elections_are_kept() -> None:
    it = Availability(0.0)
    for now in range(2 * ELECTIONS_KEPT):
        it.role_changed(LOOKING, "looking", now, 0)
        it.role_changed(SERVING, "follower", now + 0.5, now)
    assert [each.at_ms for each in it.elections] == list(range(ELECTIONS_KEPT, 2 * ELECTIONS_KEPT))
