"""Decide which clients of the admin port may run the authenticated commands `snapshot` and `give_up_history`.

The module is pure: the time is an argument, and a refusal contains the reply, which the caller sends after a pause.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from attrs import frozen

from zab.core.zxid import Millis
from zab.service.authentication import ClientAuthentication, Verdict
from zab.service.client_service import ClientService
from zab.store.acl import ADMIN, ANYONE, CREATE, DELETE, READ, SUPER, WRITE, allows, intern
from zab.store.paths import ROOT
from zab.store.znode import ACL

NOT_SERVING: Final = "This ZooKeeper instance is not currently serving requests"
SNAPSHOT_NOT_AUTHORIZED: Final = (
    "Not authorized: a snapshot holds every node, so the ACL of / must grant all permissions (cdrwa) to this identity "
    "by name; permissions of world:anyone do not count. Set such an ACL, or log in as the super user "
    "(DigestAuthenticationProvider.superDigest)"
)
GIVE_UP_NOT_AUTHORIZED: Final = (
    "Not authorized: committed transactions would be lost, so only the super user may do this "
    "(DigestAuthenticationProvider.superDigest); without one, stop the server and use `zab log give-up`"
)


@frozen
class Refusal:
    """The reply to a request that is not carried out."""

    status: HTTPStatus
    why: str
    pause_ms: float = 0.0
    """The pause before the reply, which slows down guessing of passwords."""


class AdminAccess:
    """Decides about the authenticated commands of one admin port."""

    def __init__(self, clients: ClientService, *, snapshot_enabled: bool, snapshot_ms: Millis) -> None:
        """`snapshot_ms`: the shortest time between two permitted snapshots."""
        self._clients = clients
        self._snapshot_enabled = snapshot_enabled
        self._snapshot_ms = snapshot_ms
        self._snapshot_at: Millis | None = None
        """The time of the last snapshot that was permitted; None before the first."""

    def refuse_snapshot(self, authorization: str | None, host: str, now: Millis, *, probe: bool) -> Refusal | None:
        """Return the refusal of a snapshot, or None if it is permitted. A `probe` (HEAD) takes no snapshot.

        The checks are in the order of ZooKeeper's `AuthRequest` and `SnapshotCommand`: whether the server is
        serving, the caller's identity, its permission, whether the command is enabled, the rate. Only permitted
        snapshots count against the rate. Refused requests and probes do not.
        """
        if not self._clients.ready:
            return Refusal(HTTPStatus.OK, NOT_SERVING)
        caller = self._log_in(authorization, host, now)
        if isinstance(caller, Refusal):
            return caller
        if not self._may_read_everything(caller):
            why = self._why_barred() if caller.barred else SNAPSHOT_NOT_AUTHORIZED
            return self._distrust(caller, now, HTTPStatus.FORBIDDEN, why)
        if not self._snapshot_enabled:
            return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "Snapshot command is disabled")
        left_ms = 0 if self._snapshot_at is None else self._snapshot_at + self._snapshot_ms - now
        if left_ms > 0:
            why = (
                f"Snapshot request was rate limited: one in {self._snapshot_ms / 1000:g} s "
                f"(admin.rateLimiterIntervalInMS), the next in {-(-left_ms // 1000)} s"
            )
            return Refusal(HTTPStatus.TOO_MANY_REQUESTS, why)
        if not probe:
            self._snapshot_at = now
        return None

    def refuse_give_up(self, authorization: str | None, host: str, now: Millis) -> Refusal | None:
        """Return the error reply for `give_up_history`, or None if the caller is the super user."""
        caller = self._log_in(authorization, host, now)
        if isinstance(caller, Refusal):
            return caller
        if not _is_super(caller):
            return self._distrust(caller, now, HTTPStatus.FORBIDDEN, GIVE_UP_NOT_AUTHORIZED)
        return None

    def _log_in(self, authorization: str | None, host: str, now: Millis) -> ClientAuthentication | Refusal:
        """Return the caller with the identities that it has proved, or the refusal to send.

        `authorization` is like `digest user:password`: a scheme of auth requests, and its credentials. Each character
        stands for one byte, as in HTTP.
        """
        if authorization is None:
            return Refusal(HTTPStatus.UNAUTHORIZED, "Auth info is missing for the command")
        scheme, _, credentials = authorization.partition(" ")
        caller = ClientAuthentication(self._clients.settings, host)
        if not self._clients.throttles.logins.may_try(caller.host, now):
            why = "Not checked: too many logins from this address failed just now; try again later"
            return Refusal(HTTPStatus.TOO_MANY_REQUESTS, why)
        if caller.authenticate(scheme, credentials.encode("latin-1")) is not Verdict.PROVED:
            return self._distrust(caller, now, HTTPStatus.UNAUTHORIZED, "Not authenticated")
        return caller

    def _distrust(self, caller: ClientAuthentication, now: Millis, status: HTTPStatus, why: str) -> Refusal:
        """Count and log a login that failed or lacks the permission. Return the refusal, with the pause before it."""
        clients = self._clients
        clients.counts.auth_failed += 1
        reason = caller.why or "not authorized"
        clients.log.warn_rate_limited("client_not_authenticated", caller.host, port="admin", why=reason)
        return Refusal(status, why, clients.throttles.logins.failed(caller.host, now))

    def _why_barred(self) -> str:
        required = ", ".join(sorted(self._clients.settings.security.required))
        return (
            f"Not authorized: this server requires an identity of one of these schemes: {required} "
            "(enforce.auth.schemes). Log in with one, or as the super user (DigestAuthenticationProvider.superDigest)"
        )

    def _may_read_everything(self, caller: ClientAuthentication) -> bool:
        """Return whether the caller is the super user, or the ACL of `/` grants all permissions to its identities.

        Only the super user may lack an identity of a required scheme. Entries for `world:anyone` do not count: a
        snapshot contains every node, whatever its ACL, and any client can log in with an invented name and password of
        the digest scheme.
        """
        if _is_super(caller):
            return True
        machine = self._clients.machine
        own = tuple(entry for entry in machine.tree.nodes[ROOT][ACL] if entry[1:] != ANYONE)
        if caller.barred or not own:  # for `allows`, an empty ACL grants everything
            return False
        acl, access = intern(own), machine.settings.access
        return all(allows(acl, each, caller.identities, access) for each in (READ, WRITE, CREATE, DELETE, ADMIN))


def _is_super(caller: ClientAuthentication) -> bool:
    return any(scheme == SUPER for scheme, _ in caller.identities)
