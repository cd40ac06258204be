"""What is waited for and looked at when all is healed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from harness.faults import Ask
from harness.history import Request
from harness.worlds.processes.workload import LIST, SESSION_MS
from zab.core.ensemble import Ensemble

if TYPE_CHECKING:
    from harness.worlds.processes.run import World

OPERATOR: Final = 1_000
"""Numbers of clients begin here that look at the servers when all is healed."""
PATHS_MAX: Final = 60
"""Enough to see whether what is read back is what was written; the logs are compared as a whole."""


class Healing:
    """Each step says in `waits_for` what it waits for, for whoever loses patience."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def recover(self, waits_for: list[str]) -> None:
        """Until all members serve, under one leader."""
        world = self._world
        waits_for[0] = "a quorum that serves"
        await world.until(world.uptime.quorum)
        leader = world.leader()
        assert leader is not None
        waits_for[0] = f"an answer of server {leader.sid}, which leads"
        client = world.client(OPERATOR + leader.sid)
        client.connect(leader.sid, world.client_address(leader.sid), SESSION_MS)
        assert client.session is not None
        text, _ = await client.session.config()
        world.members_are(Ensemble.parse((text or b"").decode()))
        await world.all_serve(waits_for)

    async def read_back(self, waits_for: list[str]) -> None:
        """Through every member: all that the script speaks of; then something that all of them must come to have."""
        world = self._world
        waits_for[0] = "the clients to leave"
        async with trio.open_nursery() as nursery:
            for number, client in world.clients.items():
                if number < OPERATOR:
                    nursery.start_soon(client.leave)
        waits_for[0] = "a new write to be acknowledged"
        sids = sorted(world.members.by_id)
        await world.insist(sids[0], Request("create", "/healed", b""))
        for sid in sids:
            waits_for[0] = f"server {sid} to show what it holds"
            await world.insist(sid, Request("sync", "/healed"))
            for path in self._paths():
                await world.insist(sid, Request("get", path))
                await world.insist(sid, Request("children", path))
        waits_for[0] = "the last write"
        await world.insist(sids[0], Request("set", "/healed", b"."))
        for sid in sids:
            waits_for[0] = f"server {sid} to have the last write"
            await world.insist(sid, Request("sync", "/healed"))
            await world.insist(sid, Request("get", "/healed"))

    def _paths(self) -> list[str]:
        world = self._world
        asked = [step.path for op in world.script.ops if isinstance(op, Ask) for step in op.steps if step.path]
        found = {"/", LIST} if world.script.machine == "list" else {"/", *asked}
        return sorted(found)[:PATHS_MAX]
