"""The command `snapshot`: a snapshot of the state at one zxid, made while the server serves.

A snapshot is written to the data directory, in our format, or streamed to the client as a backup. `zab import`,
ZooKeeper and its tools read backups, so a backup has ZooKeeper's format. It is made in two temporary files without
names, the first in our format, because it may be too large for the memory. Each is deleted when it is closed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from struct import Struct
from typing import TYPE_CHECKING, BinaryIO, Final

import trio

from zab.admin.http import AdminReply, AdminRequest
from zab.core.errors import StorageError
from zab.runtime.admin.commands import SNAPSHOT, Outcome
from zab.wire.disk_store import departure_of

if TYPE_CHECKING:
    from zab.runtime.store_server.server_runtime import ServerRuntime

_LENGTH: Final = Struct(">I")
RESTORE_REFUSED: Final = (
    "A snapshot cannot replace the state of a running server: the other servers and the log would continue from "
    "another history. Stop all servers, move their data directories aside, and make each of them anew from the "
    "snapshot with `zab import`"
)


class Backup:
    """Carries out the command `snapshot`, which `AdminAccess` has permitted."""

    def __init__(self, server: ServerRuntime) -> None:
        self._server = server
        self._limiter = trio.CapacityLimiter(1)

    async def answer(self, request: AdminRequest) -> AdminReply | Outcome:
        """Take a snapshot into the data directory, or with `streaming=true` return a backup as the content.

        Either way, the reply's headers have the zxid and the size. A `StorageError` of `take_snapshot` becomes a 503.
        For HEAD, do nothing and return an empty outcome.
        """
        if request.method == "HEAD":
            return Outcome(SNAPSHOT[0])
        if request.parameters.get("streaming", "").lower() == "true":
            return await self._stream()
        try:
            snapshot = await self._server.member.take_snapshot()
        except StorageError as error:
            return Outcome(SNAPSHOT[0], error=str(error), status=HTTPStatus.SERVICE_UNAVAILABLE)
        headers = (("last_zxid", f"{snapshot.zxid or 0:#x}"), ("snapshot_size", str(snapshot.size)))
        return Outcome(SNAPSHOT[0], headers=headers)

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
