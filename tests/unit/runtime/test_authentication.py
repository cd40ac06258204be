"""Identities that one client proves."""

from __future__ import annotations

from zab.runtime.coordination.authentication import Caller, Verdict
from zab.runtime.coordination.settings import DoorSettings


def test_one_identity_more_than_allowed_is_refused() -> None:
    caller = Caller(DoorSettings(identities_max=3), "10.0.0.1")
    assert caller.authenticate("digest", b"joe:1") is Verdict.PROVED
    assert caller.authenticate("digest", b"ann:1") is Verdict.PROVED
    assert caller.authenticate("digest", b"joe:1") is Verdict.PROVED, "the same one again is not one more"
    before = caller.identities
    assert caller.authenticate("digest", b"bob:1") is Verdict.REFUSED
    assert caller.identities == before
    assert "identities_max of the server's doors allows 3" in caller.why
