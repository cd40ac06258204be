"""The admission of visitors: the password, their sessions, and the tokens of forms.

Without a password every visitor is admitted, and no form changes anything. With one, a visitor sends it once, and gets
a session: a cookie with a random id. Every form has a token, which is derived from the id. A page of another site can
make a browser send a form with the cookie in some browsers, but it cannot read the token.
"""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl

import trio

from zab.admin.http import AdminRequest
from zab.console.page import Refusal
from zab.core.failed_logins import FailedLogins

SESSIONS_MAX: Final = 1_000
"""The maximum number of sessions. One more ends the oldest."""
SESSION_S: Final = 12 * 3600.0
COOKIE: Final = "zab-console"
FIELDS_MAX: Final = 20
_ID_CHARS_MAX: Final = 64


class ConsoleGate:
    """Admits visitors. `writable`: logged-in visitors may change the store."""

    def __init__(self, password: str | None = None, *, writable: bool = False) -> None:
        assert password is not None or not writable, "only a visitor that has logged in may change something"
        self.has_password = password is not None
        self.writable = writable
        self._key = secrets.token_bytes()
        """The key of all digests. It is new at each start, so a restart ends all sessions."""
        self._password = self._digest(password or "")
        self._sessions: OrderedDict[str, float] = OrderedDict()
        """The ids of logged-in visitors, and when their sessions end. The oldest is first."""
        self._failed = FailedLogins()

    def session_of(self, request: AdminRequest) -> str | None:
        """Return the id in the visitor's cookie, which the visitor may have invented; None without one."""
        for each in request.headers.get("cookie", "").split(";"):
            name, _, value = each.strip().partition("=")
            if name == COOKIE and 0 < len(value) <= _ID_CHARS_MAX:
                return value
        return None

    def admits(self, session: str | None) -> bool:
        if not self.has_password:
            return True
        return session is not None and self._sessions.get(session, 0.0) > trio.current_time()

    def token(self, session: str) -> str:
        return self._digest(f"token of {session}").hex()

    def checked_form(self, request: AdminRequest, session: str | None) -> dict[str, str]:
        """Return the fields of a form. Raise `Refusal` if it is too large, malformed, or its token is wrong."""
        if request.body is None:
            raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "this form is larger than the console accepts")
        try:
            pairs = parse_qsl(request.body.decode(), keep_blank_values=True, max_num_fields=FIELDS_MAX, errors="strict")
        except ValueError:
            raise Refusal(HTTPStatus.BAD_REQUEST, "the form is malformed") from None
        fields = dict(pairs)
        wanted = self.token(session or secrets.token_hex())
        if not hmac.compare_digest(fields.get("token", "").encode(), wanted.encode()):
            raise Refusal(HTTPStatus.FORBIDDEN, "the form has no valid token: reload its page, and send it again")
        return fields

    async def log_in(self, password: str, host: str) -> str | None:
        """Return the id of a new session; None if the password is wrong. Wrong ones are counted by the host."""
        if not self._failed.may_try(host, trio.current_time() * 1000):
            raise Refusal(HTTPStatus.TOO_MANY_REQUESTS, "too many failed logins from this address: try again later")
        if not hmac.compare_digest(self._digest(password), self._password):
            await trio.sleep(self._failed.failed(host, trio.current_time() * 1000) / 1000)
            return None
        session = new_session()
        self._sessions[session] = trio.current_time() + SESSION_S
        while len(self._sessions) > SESSIONS_MAX:
            self._sessions.popitem(last=False)
        return session

    def log_out(self, session: str | None) -> None:
        self._sessions.pop(session or "", None)

    def _digest(self, text: str) -> bytes:
        return hmac.digest(self._key, text.encode("utf-8", "replace"), "sha256")


def new_session() -> str:
    return secrets.token_urlsafe(24)


def cookie(session: str, origin: str | None) -> tuple[str, str]:
    """Return the header that stores the session. If the page came over TLS, so must the cookie."""
    secure = "; Secure" if origin is not None and origin.startswith("https://") else ""
    return "Set-Cookie", f"{COOKIE}={session}; HttpOnly; SameSite=Strict; Path=/{secure}"
