"""The command `snapshot`: a backup of one moment, in ZooKeeper's own format, without holding up the server.

Backups are read later and elsewhere: by `zab import`, by ZooKeeper and by its tools. So they have ZooKeeper's format,
not ours. They pass through two files without names: that costs disk and not memory, and leaves no file behind.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from struct import Struct
from typing import TYPE_CHECKING, BinaryIO, Final

import trio

from zab.admin.admin_settings import AdminSettings
from zab.admin.http import AdminReply, AdminRequest
from zab.core.errors import StorageError
from zab.runtime.admin.commands import NOT_SERVING, SNAPSHOT, Outcome
from zab.runtime.admin.login import distrust, log_in
from zab.service.authentication import ClientAuthentication
from zab.store.acl import ADMIN, ANYONE, CREATE, DELETE, READ, SUPER, WRITE, allows, intern
from zab.store.paths import ROOT
from zab.store.znode import ACL
from zab.wire.disk_store import departure_of

if TYPE_CHECKING:
    from zab.runtime.store_server.server_runtime import ServerRuntime

_LENGTH: Final = Struct(">I")
NOT_AUTHORIZED: Final = (
    "Not authorized: a snapshot holds every node, so the ACL of / must grant all permissions (cdrwa) to this identity "
    "by name; what it grants to world:anyone does not count. Set such an ACL, or log in as the super user "
    "(DigestAuthenticationProvider.superDigest)"
)
RESTORE_REFUSED: Final = (
    "A snapshot cannot replace the state of a running server: the other servers and the log would continue from "
    "another history. Stop all servers, and give each of them the snapshot with `zab import`"
)


class Backup:
    """Answers the command `snapshot`, at most once in `snapshot_ms`."""

    def __init__(self, server: ServerRuntime, settings: AdminSettings) -> None:
        self._server = server
        self._settings = settings
        self._last: float | None = None
        """The time of the last snapshot that was permitted."""
        self._limiter = trio.CapacityLimiter(1)

    async def answer(self, request: AdminRequest, host: str) -> AdminReply | Outcome:
        """Take a snapshot and return its zxid and size, or its content with `streaming=true`.

        The order of the checks is that of ZooKeeper's `AuthRequest` and `SnapshotCommand`: serving, the caller's
        identity, its permission, the switch, the rate. A request that an earlier check refuses does not count against
        the rate, and neither does HEAD.
        """
        server, settings = self._server, self._settings
        if server.role is None or not server.role.serving or not server.clients.ready:
            return self._refused(NOT_SERVING, HTTPStatus.OK)
        caller = await log_in(server, SNAPSHOT[0], request, host)
        if isinstance(caller, Outcome):
            return caller
        if not self._may_read_everything(caller):
            return await distrust(server, SNAPSHOT[0], caller, NOT_AUTHORIZED, HTTPStatus.FORBIDDEN)
        if not settings.snapshot_enabled:
            return self._refused("Snapshot command is disabled", HTTPStatus.SERVICE_UNAVAILABLE)
        now = trio.current_time()
        left_s = 0.0 if self._last is None else self._last + settings.snapshot_ms / 1000 - now
        if left_s > 0:
            why = (
                f"Snapshot request was rate limited: one in {settings.snapshot_ms / 1000:g} s "
                f"(admin.rateLimiterIntervalInMS), the next in {left_s:.0f} s"
            )
            return self._refused(why, HTTPStatus.TOO_MANY_REQUESTS)
        if request.method == "HEAD":
            return Outcome(SNAPSHOT[0])
        self._last = now
        if request.parameters.get("streaming", "").lower() == "true":
            return await self._stream()
        try:
            snapshot = await server.member.take_snapshot()
        except StorageError as error:
            return self._refused(str(error), HTTPStatus.SERVICE_UNAVAILABLE)
        headers = (("last_zxid", f"{snapshot.zxid or 0:#x}"), ("snapshot_size", str(snapshot.size)))
        return Outcome(SNAPSHOT[0], headers=headers)

    def _may_read_everything(self, caller: ClientAuthentication) -> bool:
        """Return whether the ACL of `/` grants all permissions to an identity that the caller has proved.

        A snapshot holds every node, whatever the node's ACL. Anyone can prove some digest identity by inventing a
        name and a password, so what `world:anyone` may do at `/` proves nothing.
        """
        if any(scheme == SUPER for scheme, _ in caller.identities):
            return True
        machine = self._server.machine
        own = tuple(entry for entry in machine.tree.nodes[ROOT][ACL] if entry[1:] != ANYONE)
        if caller.barred or not own:  # `allows` takes an empty list for one that is open
            return False
        acl, access = intern(own), machine.settings.access
        return all(allows(acl, each, caller.identities, access) for each in (READ, WRITE, CREATE, DELETE, ADMIN))

    def _refused(self, why: str, status: HTTPStatus) -> Outcome:
        return Outcome(SNAPSHOT[0], error=why, status=status)

    async def _stream(self) -> AdminReply:
        machine, folder = self._server.machine, self._server.member.disk_status().path
        chunks, zxid = machine.snapshot(), machine.zxid
        file = await trio.to_thread.run_sync(_write, chunks, folder, limiter=self._limiter)
        size = file.seek(0, 2)
        self._server.log.say("backup", zxid=f"{zxid:#x}", bytes=size)
        headers = (("last_zxid", f"{zxid:#x}"), ("snapshot_size", str(size)))
        return AdminReply(content_type="application/octet-stream", headers=headers, file=file)


def _write(chunks: Iterable[bytes], folder: str | None) -> BinaryIO:
    with tempfile.TemporaryFile(dir=folder) as ours:
        for chunk in chunks:
            trio.from_thread.check_cancelled()
            ours.write(_LENGTH.pack(len(chunk)))
            ours.write(chunk)

        def again() -> Iterator[bytes]:
            ours.seek(0)
            while head := ours.read(_LENGTH.size):
                trio.from_thread.check_cancelled()
                yield ours.read(_LENGTH.unpack(head)[0])

        file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  # the sender of the reply closes it
        try:
            for piece in departure_of(again):
                file.write(piece)
        except BaseException:
            file.close()
            raise
    return file
