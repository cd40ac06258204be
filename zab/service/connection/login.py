"""Auth and SASL requests, by which a client proves identities for later requests of the connection."""

from __future__ import annotations

from typing import Final, Protocol

from attrs import frozen

from zab.service.authentication import ClientAuthentication, Verdict
from zab.service.connection.ports import ServerPort
from zab.store.error_codes import ErrorCode
from zab.wire.client.replies import body_reply, error_reply
from zab.wire.client.requests import RejectedRequest, decode_request
from zab.wire.jute import buffer

SCHEME_CHARS_SHOWN: Final = 100
"""The largest number of characters of a client's scheme in the audit log."""


class LoginClient(Protocol):
    @property
    def session(self) -> int: ...
    @property
    def peer(self) -> str: ...
    @property
    def authentication(self) -> ClientAuthentication: ...


@frozen
class LoginOutcome:
    """The effect of an auth or SASL request: a frame to send, perhaps after a pause, or a reason to cut the client."""

    frame: bytes = b""
    ends: bool = False
    """True if the connection is closed after the frame."""
    pause_ms: float = 0.0
    """The time before the frame is sent."""
    cut: str = ""
    """The reason to cut the connection without a reply; empty: it is not cut."""


class Login:
    def __init__(self, server: ServerPort, client: LoginClient) -> None:
        self._server = server
        self._client = client

    def authenticate(self, op: int, xid: int, body: bytes, now_ms: int) -> LoginOutcome:
        """Check the credentials of an auth request. The reply does not wait for the replies to earlier requests."""
        auth, fields = self._client.authentication, decode_request(op, body)
        verdict = Verdict.REFUSED
        auth.guessed_wrong, auth.why = False, "the auth request cannot be decoded, or has no credentials"
        if not isinstance(fields, RejectedRequest):
            scheme, credentials = fields[1], fields[2] or b""
            if auth.may_be_wrong(scheme, credentials) and not self._may_try(now_ms):
                return LoginOutcome(cut=auth.why)
            if fields[2] is not None or scheme != "digest":
                verdict = auth.authenticate(scheme, credentials)
                self._audit(scheme[:SCHEME_CHARS_SHOWN], verdict is Verdict.PROVED)
        if verdict is Verdict.SENT_AWAY:
            self._warn("client_sent_away")
            self._server.counts.ensemble_auth_fail += 1
            return LoginOutcome(cut=auth.why)
        if verdict is Verdict.PROVED:
            if auth.guessed_wrong:
                self._warn("client_not_authenticated")
            return self._outcome(error_reply(xid, 0, 0), False, now_ms)
        self._warn("client_not_authenticated")
        return self._outcome(error_reply(xid, 0, ErrorCode.AUTH_FAILED), True, now_ms)

    def sasl(self, op: int, xid: int, body: bytes, now_ms: int) -> LoginOutcome:
        """Take the next step of a SASL exchange."""
        auth = self._client.authentication
        if not self._may_try(now_ms):
            return LoginOutcome(cut=auth.why)
        fields = decode_request(op, body)
        token, error = auth.sasl(None if isinstance(fields, RejectedRequest) else fields[0])
        if token is None or auth.proved_by_sasl:
            self._audit("sasl", token is not None)
        if token is None:
            self._warn("client_not_authenticated")
        return self._outcome(body_reply(xid, 0, buffer(token), error), bool(error), now_ms)

    def refuse(self, xid: int) -> LoginOutcome:
        """Refuse a request other than auth and SASL, because the client lacks an identity that this server requires."""
        self._client.authentication.why = "sent a request before it proved an identity that this server requires"
        self._warn("client_not_authenticated")
        return LoginOutcome(error_reply(xid, 0, ErrorCode.SESSION_CLOSED_REQUIRES_SASL_AUTH), ends=True)

    def _may_try(self, now_ms: int) -> bool:
        """Return whether credentials may be checked now. If not, the caller must cut the connection."""
        auth = self._client.authentication
        if self._server.throttles.logins.may_try(auth.host, now_ms):
            return True
        auth.why = "its credentials were not checked: too many failed logins from its address wait for their replies"
        self._warn("client_not_authenticated")
        return False

    def _outcome(self, frame: bytes, ends: bool, now_ms: int) -> LoginOutcome:
        """Return the outcome with a frame. Wrong credentials are answered after a pause, which slows down guessing."""
        auth = self._client.authentication
        pause_ms = self._server.throttles.logins.failed(auth.host, now_ms) if auth.guessed_wrong else 0.0
        return LoginOutcome(frame, ends, pause_ms)

    def _audit(self, scheme: str, held: bool) -> None:
        if self._server.audit is not None:
            auth = self._client.authentication
            self._server.audit.authenticated(self._client.session, auth.identities, auth.host, scheme, held)

    def _warn(self, event: str) -> None:
        peer = self._client.peer
        self._server.counts.auth_failed += 1
        self._server.log.warn_rate_limited(
            event, peer.rpartition(":")[0], peer=peer, why=self._client.authentication.why
        )
