"""Lets the faults of a script happen to real processes, and ends each when its time is over.

It takes disks away from no more servers than the ensemble can spare, counting those that have not served since.
A process that is killed keeps what it has written: the machine under it goes on. So what a script says of the loss
of what was not synced has no effect here. What it does stands in `strikes_network`, `strikes_process` and
`strikes_disk`; here is whom it strikes, and what several faults have in common.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import trio

from harness.faults import FOLLOWER, LEADER, Fault, Op, Setting
from harness.worlds.processes import strikes_disk, strikes_network, strikes_process
from harness.worlds.processes.server import Server

if TYPE_CHECKING:
    from harness.worlds.processes.run import World

END_S: Final = 20
"""Within which a server that is told to end has ended."""


class Nemesis:
    def __init__(self, world: World) -> None:
        self.world = world
        self.excused: set[int] = set()
        """Servers whose disk was told to fail: they may stop, and need not be able to start."""

    async def strike(self, fault: Fault) -> None:
        await STRIKES[type(fault)](self, fault)

    def who(self, sid: int) -> Server | None:
        servers = self.world.servers
        if sid > 0:
            found = servers.get(sid)
            return found if found is not None and found.founded else None
        leader = self.world.leader()
        if sid == LEADER or leader is None:
            return leader
        assert sid == FOLLOWER
        for server in servers.values():
            if server is not leader and server.up and server.role is not None and server.role.leader == leader.sid:
                return server
        return None

    def others(self, server: Server) -> list[int]:
        return [sid for sid in self.world.servers if sid != server.sid]

    async def sleep(self, ms: float) -> None:
        await trio.sleep(ms * self.world.scale / 1000)

    async def down(self, server: Server, down_ms: float) -> None:
        await server.gone()
        await self.sleep(down_ms)
        self.world.revive(server)

    async def end(self, server: Server, manner: str) -> None:
        if manner == "kill":
            server.kill()
            await server.gone()
            return
        server.terminate()
        with trio.move_on_after(END_S) as patience:
            await server.gone()
        if patience.cancelled_caught:
            self.world.broken("no server hangs", f"server {server.sid} was told to end, and runs {END_S} s later")

    # -- the end ---------------------------------------------------------------------------------------

    def rest(self) -> None:
        """Whatever is under way is over."""
        self.world.network.heal()
        for server in self.world.servers.values():
            server.is_well()
            server.resume()


STRIKES: Final[dict[type, Callable[[Any, Any], Awaitable[None]]]] = {
    **strikes_network.STRIKES,
    **strikes_process.STRIKES,
    **strikes_disk.STRIKES,
}


def can(item: Fault | Op) -> bool:
    if isinstance(item, Setting):
        return item.knob in strikes_process.KEYS
    return type(item) in STRIKES
