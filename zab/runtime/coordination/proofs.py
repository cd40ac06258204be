"""Requests in which a client says who it is: auth and SASL. They hold for all requests behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from zab.runtime.coordination.authentication import Verdict
from zab.runtime.driver import now_ms
from zab.store.errors import ErrorCode
from zab.store.ops import Op
from zab.wire.client.frames import Request
from zab.wire.client.replies import body_reply, error_reply
from zab.wire.client.requests import Refused, decode_request
from zab.wire.jute import buffer

if TYPE_CHECKING:
    from zab.runtime.coordination.intake import Intake

SCHEME_CHARS_SHOWN: Final = 100
"""The characters of a client's scheme in the audit log."""
_AUTH: Final = int(Op.AUTH)
_SASL: Final = int(Op.SASL)


def authenticate(client: Intake, op: int, xid: int, body: bytes) -> None:
    """Said at once, as the original does: it is no part of the session's line."""
    caller, fields = client.caller, decode_request(op, body)
    verdict = Verdict.REFUSED
    if not isinstance(fields, Refused) and caller.may_be_wrong(fields[1], fields[2] or b"") and not _may_try(client):
        return
    if not isinstance(fields, Refused) and (fields[2] is not None or fields[1] != "digest"):
        verdict = caller.authenticate(fields[1], fields[2] or b"")
        _tell_audit(client, fields[1][:SCHEME_CHARS_SHOWN], verdict is Verdict.PROVED)
    if verdict is Verdict.SENT_AWAY:
        _distrust(client, "client_sent_away")
        client.server.counts.ensemble_auth_fail += 1
        client.cut(caller.why)
    elif verdict is Verdict.PROVED:
        client.identities, client.identified = caller.identities, caller.encoded
        if caller.guessed_wrong:
            _distrust(client, "client_not_authenticated")
        _answer(client, error_reply(xid, 0, 0))
    else:
        _distrust(client, "client_not_authenticated")
        _answer(client, error_reply(xid, 0, ErrorCode.AUTH_FAILED), ends=True)


def sasl(client: Intake, op: int, xid: int, body: bytes) -> None:
    if not _may_try(client):
        return
    caller, fields = client.caller, decode_request(op, body)
    token, error = caller.sasl(None if isinstance(fields, Refused) else fields[0])
    client.identities, client.identified = caller.identities, caller.encoded
    if token is None or caller.proved_by_sasl:
        _tell_audit(client, "sasl", token is not None)
    if token is None:
        _distrust(client, "client_not_authenticated")
    _answer(client, body_reply(xid, 0, buffer(token), error), ends=bool(error))


def _may_try(client: Intake) -> bool:
    """Return whether what the client shows is checked; if not, it is cut off."""
    if client.server.failed_logins.may_try(client.caller.host, now_ms()):
        return True
    client.caller.why = "not checked, because too many logins from its address failed just now"
    _distrust(client, "client_not_authenticated")
    client.cut(client.caller.why)
    return False


def _answer(client: Intake, frame: bytes, *, ends: bool = False) -> None:
    """Send the answer; before that to wrong credentials, wait as long as the failure costs the client's address."""

    def say() -> None:
        client.send(frame)
        if ends:
            client.finish()

    async def say_later() -> None:
        await trio.sleep(pause_ms / 1000)
        say()
        client.proceed()
        client.flush()

    wrong = client.caller.guessed_wrong
    pause_ms = client.server.failed_logins.failed(client.caller.host, now_ms()) if wrong else 0.0
    if not pause_ms:
        say()
        return
    client.pause()
    client.start(say_later)


def proofs_of(client: Intake, requests: list[Request]) -> list[Request]:
    """What is in front has to be proofs until it is known who this is. Returns the rest."""
    for index, (xid, op, body) in enumerate(requests):
        if client.paused or not client.caller.barred:
            return requests[index:]
        if client.last_taken or client.over:
            break
        if op == _AUTH:
            authenticate(client, op, xid, body)
        elif op == _SASL:
            sasl(client, op, xid, body)
        else:
            client.caller.why = "asked before it was known who it is"
            _distrust(client, "client_not_authenticated")
            client.send(error_reply(xid, 0, ErrorCode.SESSION_CLOSED_REQUIRES_SASL_AUTH))
            client.finish()
    return []


def _tell_audit(client: Intake, scheme: str, held: bool) -> None:
    if client.server.audit is not None:
        caller = client.caller
        client.server.audit.authenticated(client.session, caller.identities, caller.host, scheme, held)


def _distrust(client: Intake, event: str) -> None:
    client.server.auth_failed += 1
    client.server.log.grumble(event, client.peer.rpartition(":")[0], peer=client.peer, why=client.caller.why)
