"""The audit log: a line for each change that a client requests, in ZooKeeper's format.

    session=0x1000 user=127.0.0.1,bob ip=127.0.0.1 operation=create znode=/a znode_type=persistent result=success

Tabs separate the fields. Each server logs the changes that the clients of its ports request, its own start and stop,
and the ephemeral nodes that are deleted at the end of any session. Changes by sessions in its process are not logged.
Unlike ZooKeeper, it also logs the result of each checked auth request and SASL exchange, and escapes names, so that a
client cannot forge a line.
"""

from __future__ import annotations

import getpass
import logging
from collections.abc import Iterable, Mapping
from logging.handlers import WatchedFileHandler
from typing import TYPE_CHECKING, Final, cast

from attrs import frozen

from zab.core.argument_names import checks_arguments
from zab.core.errors import ConfigError
from zab.host.logs import TextFormatter
from zab.store.acl import ADMIN, CREATE, DELETE, READ, SUPER, WRITE, Acl, Identity, user_of
from zab.store.operations import CREATES, CreateFlag, Fields, Op
from zab.wire.client.requests import RejectedRequest, decode_request

if TYPE_CHECKING:
    from zab.service.forwarding.pending_submissions import Done
    from zab.store.apply import Result

LOGGER: Final = "zab.audit"


@checks_arguments
@frozen
class AuditSettings:
    """The destination of the audit log: `file`, or if it is None the logger `zab.audit`.

    Failures are logged at error, all other lines at info.
    """

    file: str | None = None


_OPERATIONS: Final[Mapping[int, str]] = {
    **dict.fromkeys(map(int, CREATES), "create"),
    int(Op.DELETE): "delete",
    int(Op.SET_DATA): "setData",
    int(Op.SET_ACL): "setAcl",
    int(Op.MULTI): "multiOperation",
    int(Op.RECONFIG): "reconfig",
}
_TYPES: Final[Mapping[int, str]] = {
    CreateFlag.PERSISTENT: "persistent",
    CreateFlag.EPHEMERAL: "ephemeral",
    CreateFlag.PERSISTENT_SEQUENTIAL: "persistent_sequential",
    CreateFlag.EPHEMERAL_SEQUENTIAL: "ephemeral_sequential",
    CreateFlag.CONTAINER: "container",
    CreateFlag.PERSISTENT_TTL: "persistent_with_ttl",
    CreateFlag.PERSISTENT_SEQUENTIAL_TTL: "persistent_sequential_with_ttl",
}
_LETTERS: Final = ((CREATE, "c"), (DELETE, "d"), (READ, "r"), (WRITE, "w"), (ADMIN, "a"))


def shown(acl: Acl) -> str:
    return "".join(
        f"{scheme}:{name}:{''.join(letter for bit, letter in _LETTERS if perms & bit)}" for perms, scheme, name in acl
    )


def users(identities: Iterable[Identity]) -> str:
    return ",".join(user for user in map(user_of, (one for one in identities if one[0] != SUPER)) if user.strip())


class Audit:
    """The audit log of one server. A server without `ClientPortSettings.audit` has none."""

    def __init__(self, settings: AuditSettings) -> None:
        self._logger, self._handler = logging.getLogger(LOGGER), None
        if settings.file is not None:
            try:
                # This handler reopens the file after it was moved, so that the log can be rotated.
                handler = WatchedFileHandler(settings.file, encoding="utf-8", errors="backslashreplace")
            except OSError as error:
                raise ConfigError(f"audit.file={settings.file}: {error.strerror or error}") from error
            handler.setFormatter(TextFormatter("audit: %(message)s"))
            self._logger, self._handler = logging.Logger(LOGGER, logging.INFO), handler
            self._logger.addHandler(handler)

    def close(self) -> None:
        if self._handler is not None:
            self._handler.close()

    # -- log entries -------------------------------------------------------------------------------

    def own(self, operation: str, result: str = "success") -> None:
        """Log an operation of this server itself: its start or stop."""
        self._write(result, user=_me(), operation=operation)

    def session_ended(self, session: int, paths: Iterable[str]) -> None:
        """Log a line for each ephemeral node that is deleted with its session."""
        operation = "ephemeralZNodeDeletionOnSessionCloseOrExpire"
        for path in paths:
            self._write("success", session=_hex(session), user=_me(), operation=operation, znode=path)

    def authenticated(self, session: int, identities: Iterable[Identity], ip: str, scheme: str, held: bool) -> None:
        who = {"session": _hex(session), "user": users(identities), "ip": ip}
        self._write("success" if held else "failure", **who, operation="authenticate", scheme=scheme)

    def reconfigured(self, session: int, identities: Iterable[Identity], ip: str, allowed: bool) -> None:
        """Log a request to change the membership, and whether it was permitted.

        The servers' logs tell whether the change came into force.
        """
        who = {"session": _hex(session), "user": users(identities), "ip": ip}
        self._write("invoked" if allowed else "failure", **who, operation=_OPERATIONS[Op.RECONFIG])

    def reporter(self, session: int, identities: Iterable[Identity], ip: str, op: int, body: bytes) -> Done | None:
        """Return a function that logs this write with its result, or None if requests of this type are not logged.

        A write that ends with an exception, such as `OutcomeUnknown`, has no result: it is logged as `invoked`.
        """
        if op not in _OPERATIONS:
            return None
        who = {"session": _hex(session), "user": users(identities), "ip": ip}

        def tell(result: object, error: Exception | None) -> None:
            if error is None:
                self._written(who, op, body, cast("Result", result))
            else:
                self._write("invoked", **who, operation=_OPERATIONS[op])

        return tell

    def _written(self, who: Mapping[str, str], op: int, body: bytes, result: Result) -> None:
        fields = decode_request(op, body)
        if isinstance(fields, RejectedRequest):
            self._write("failure", **who, operation=_OPERATIONS[op])
        elif op != Op.MULTI:
            self._one(who, op, fields, result[1], result[2])
        elif result[1] or any(part[1] for part in result[4]):
            self._write("failure", **who, operation=_OPERATIONS[op])
        else:
            for (sub_op, sub_fields), part in zip(fields, result[4], strict=False):
                if sub_op in _OPERATIONS:
                    self._one(who, sub_op, sub_fields, part[1], part[2])

    def _one(self, who: Mapping[str, str], op: int, fields: Fields, error: int, created: str | None) -> None:
        more = {} if op == Op.RECONFIG else {"znode": created or fields[0]}
        if op in CREATES:
            more["znode_type"] = _TYPES.get(fields[3], "")
        elif op == Op.SET_ACL:
            more["acl"] = shown(fields[1] or ())
        self._write("failure" if error else "success", **who, operation=_OPERATIONS[op], **more)

    def _write(self, outcome: str, **fields: str) -> None:
        level = logging.ERROR if outcome == "failure" else logging.INFO
        if self._logger.isEnabledFor(level):
            shown = [f"{key}={_line(value)}" for key, value in fields.items() if value]
            self._logger.log(level, "%s", "\t".join((*shown, f"result={outcome}")))


def _line(text: str) -> str:
    """Escape all characters that are not printable, such as tabs and line ends: no client can forge or hide a line."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _hex(session: int) -> str:
    return f"{session & 0xFFFF_FFFF_FFFF_FFFF:#x}"


def _me() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
