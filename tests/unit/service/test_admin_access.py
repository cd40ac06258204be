"""The access to the admin commands that take an identity: the order of the checks, the rate, and the pauses."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import pytest

from tests.unit.service.test_client_service import Surroundings
from zab.core.failed_logins import FailedLoginSettings
from zab.runtime.store_server.security_settings import SecuritySettings
from zab.service.admin_access import AdminAccess, Refusal
from zab.store.acl import ALL, digest_id
from zab.store.paths import ROOT
from zab.store.znode import ACL

HOST = "10.0.0.1"
CHIEF, ADMINISTRATOR, OTHER = "digest super:secret", "digest admin:pass", "digest other:pass"
SNAPSHOT_MS = 300_000


class Access:
    """The access of one admin port to a server that leads, on a clock that the test moves."""

    def __init__(self, *, snapshot_enabled: bool = True, **options: Any) -> None:
        self.server = Surroundings(super_digest=digest_id(b"super:secret"), **options)
        self.server.lead()
        self.it = AdminAccess(self.server.it, snapshot_enabled=snapshot_enabled, snapshot_ms=SNAPSHOT_MS)
        self.now = 0

    def restrict(self, *entries: tuple[int, str, str]) -> None:
        """Set the ACL of the root."""
        node = self.server.store.tree.nodes[ROOT]
        self.server.store.tree.nodes[ROOT] = (*node[:ACL], entries, *node[ACL + 1 :])  # type: ignore[assignment]

    def snapshot(self, authorization: str | None, *, probe: bool = False) -> HTTPStatus | None:
        refusal = self.it.refuse_snapshot(authorization, HOST, self.now, probe=probe)
        return None if refusal is None else refusal.status

    def give_up(self, authorization: str | None) -> Refusal | None:
        return self.it.refuse_give_up(authorization, HOST, self.now)


def test_snapshot_is_refused_without_a_leader_before_anything_else_is_checked() -> None:
    access = Access()
    access.server.lose_leader()
    assert access.snapshot(None) is HTTPStatus.OK


@pytest.mark.parametrize("authorization", [None, "Basic abc"])
def test_caller_without_a_proved_identity_is_not_authorized(authorization: str | None) -> None:
    assert Access().snapshot(authorization) is HTTPStatus.UNAUTHORIZED


def test_password_may_have_any_characters() -> None:
    access = Access()
    credentials = "admin:pässwörd".encode()
    access.restrict((ALL, "digest", digest_id(credentials)))
    assert access.snapshot(f"digest {credentials.decode('latin-1')}", probe=True) is None


def test_snapshot_is_for_the_super_user_and_for_an_identity_with_all_permissions_at_the_root() -> None:
    access = Access()
    assert access.snapshot(OTHER, probe=True) is HTTPStatus.FORBIDDEN, "what anyone may do proves nothing"
    access.restrict((ALL, "digest", digest_id(b"admin:pass")), (ALL, "world", "anyone"))
    assert access.snapshot(OTHER, probe=True) is HTTPStatus.FORBIDDEN
    assert access.snapshot(ADMINISTRATOR, probe=True) is None
    assert access.snapshot(CHIEF, probe=True) is None
    access.restrict((ALL - 1, "digest", digest_id(b"admin:pass")))
    assert access.snapshot(ADMINISTRATOR, probe=True) is HTTPStatus.FORBIDDEN, "one permission is missing"


def test_refusal_for_the_lack_of_a_required_identity_names_the_scheme() -> None:
    access = Access(security=SecuritySettings(required=frozenset({"x509"})))
    access.restrict((ALL, "digest", digest_id(b"admin:pass")))
    refusal = access.it.refuse_snapshot(ADMINISTRATOR, HOST, 0, probe=True)
    assert refusal is not None
    assert refusal.status is HTTPStatus.FORBIDDEN
    assert "requires an identity of one of these schemes: x509" in refusal.why
    assert access.snapshot(CHIEF, probe=True) is None


def test_switched_off_snapshots_are_refused_after_the_permission() -> None:
    access = Access(snapshot_enabled=False)
    assert access.snapshot(OTHER) is HTTPStatus.FORBIDDEN
    assert access.snapshot(CHIEF) is HTTPStatus.SERVICE_UNAVAILABLE


def test_only_permitted_snapshots_count_against_the_rate() -> None:
    access = Access()
    assert access.snapshot(CHIEF, probe=True) is None
    assert access.snapshot(OTHER) is HTTPStatus.FORBIDDEN
    assert access.snapshot(CHIEF) is None
    access.now = SNAPSHOT_MS - 1
    assert access.snapshot(CHIEF) is HTTPStatus.TOO_MANY_REQUESTS
    access.now = SNAPSHOT_MS
    assert access.snapshot(CHIEF) is None


def test_only_the_super_user_may_give_up_a_history() -> None:
    access = Access()
    access.restrict((ALL, "digest", digest_id(b"admin:pass")))
    refused = access.give_up(ADMINISTRATOR)
    assert refused is not None
    assert refused.status is HTTPStatus.FORBIDDEN
    assert access.give_up(CHIEF) is None


def test_guesses_are_answered_after_a_pause_and_then_not_checked() -> None:
    access = Access(failed_logins=FailedLoginSettings(pause_ms=100, waiting_max=2))
    first, second, third = (access.give_up("digest super:guess") for _ in range(3))
    assert first is not None
    assert second is not None
    assert third is not None
    assert (first.pause_ms, second.pause_ms) == (100, 200)
    assert (third.status, third.pause_ms) == (HTTPStatus.TOO_MANY_REQUESTS, 0)
    assert access.server.it.counts.auth_failed == 2
