"""At the leader: container nodes that have lost their last child, and nodes whose time is up, are deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from zab.runtime.coordination.posting import ignore
from zab.store import reaper
from zab.store.ops import Op

if TYPE_CHECKING:
    from zab.runtime.coordination.server import StoreServer

REAPS_PER_MINUTE: Final = 60
"""They go in so many parts, not all at once."""


async def reap(server: StoreServer) -> None:
    pause_ms = server.settings.containers_ms
    while True:
        await trio.sleep(pause_ms / 1000)
        if not server.leading or server.restoring:
            continue
        settings = server.settings
        most = settings.containers_per_minute_max
        paths = reaper.candidates(
            server.machine.tree, server.member.host.wall_ms(), settings.containers_never_used_ms, most
        )
        part = max(1, most // REAPS_PER_MINUTE)
        for start in range(0, len(paths), part):
            for path in paths[start : start + part]:
                server.post(server.internal(Op.DELETE_CONTAINER, (path,)), ignore)
            if start + part < len(paths):
                await trio.sleep(60 / REAPS_PER_MINUTE)
