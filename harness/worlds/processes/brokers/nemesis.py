"""Injects the faults of brokers, which are operations in a script."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import trio

from harness import faults
from harness.faults import Op
from harness.history import Request
from harness.worlds.processes.brokers.broker import Broker
from harness.worlds.processes.brokers.fleet import ASK_S, CHECK_S, Fleet
from harness.worlds.processes.nemesis import Injector

LEAVE_S: Final = 60.0
"""The time limit for a controlled shutdown of a broker."""
LOST: Final = "/harness-lost-"
"""The path prefix of nodes of the store that mark the loss of a broker's disk."""
InSync = Callable[[], Awaitable[None]]


class BrokersNemesis(Injector):
    """Injects the faults of brokers. `in_sync` waits until all replicas are in sync."""

    def __init__(self, fleet: Fleet, in_sync: InSync) -> None:
        super().__init__(fleet.cluster)
        self.departing = 0
        self._fleet = fleet
        self._in_sync = in_sync
        self._one_departs = trio.Lock()

    def perform(self, op: Op) -> bool:
        """Start a fault; return False if the operation is no fault."""
        if type(op) in _TARGETED:
            self.cluster.spawn_until_healed(self._inject, op)
        elif isinstance(op, faults.Depart):
            self.departing += 1
            self.cluster.spawn(self._depart, op)
        elif isinstance(op, faults.Blackout):
            for broker in self._fleet.brokers.values():
                if broker.up:
                    self.cluster.spawn_until_healed(self.kill, broker, op.down_ms)
        elif isinstance(op, faults.PartBrokers):
            one, other = self._fleet.broker_number(op.broker), self._fleet.broker_number(op.other)
            if one != other:
                self.cluster.counted("hit PartBrokers")
                self.cluster.spawn_until_healed(self.block, self._fleet.links.between(one, other), op.for_ms)
        else:
            return False
        return True

    async def _inject(self, op: Any) -> None:
        broker = await self._target(op.broker)
        if broker is not None and broker.up:
            self.cluster.counted(f"hit {type(op).__name__}")
            await _TARGETED[type(op)](self, op, broker)

    async def _target(self, number: int) -> Broker | None:
        found = await self._fleet.controller() if number == faults.CONTROLLER else self._fleet.broker_number(number)
        return None if found is None else self._fleet.brokers.get(found)

    # -- processes and disks ---------------------------------------------------------------------------

    async def _kill(self, op: Any, broker: Broker) -> None:
        await self.kill(broker, getattr(op, "down_ms", 0))

    async def _depart(self, op: faults.Depart) -> None:
        """Restart a broker in good order, as an operator does: one at a time, and only with all replicas in sync."""
        async with self._one_departs:
            await self._in_sync()
            broker = await self._target(op.broker)
            if broker is not None and broker.up:
                self.cluster.counted("hit Depart")
                await self.stop(broker, LEAVE_S)
                await self.cluster.sleep(op.down_ms)
                self.cluster.revive(broker)
            await self._in_sync()
        self.departing -= 1

    async def _pause(self, op: faults.PauseBroker, broker: Broker) -> None:
        await self.pause(broker, op.for_ms)

    async def _wipe(self, op: faults.WipeBroker, broker: Broker) -> None:
        broker.kill()
        await broker.wait_for_exit()
        await self._mark_loss(broker)
        broker.lose_disk()
        await self.down(broker, op.down_ms)

    async def _mark_loss(self, broker: Broker) -> None:
        """Mark the loss in the history of the store, which then shows the elections before and after it."""
        mark = Request("create", f"{LOST}{broker.sid}-{broker.starts}", b"%d" % broker.sid)
        while True:
            leader = self.cluster.leader()
            if leader is not None and leader.serves:
                with trio.move_on_after(ASK_S):
                    await self.cluster.ask_until_answered(leader.sid, mark)
                    return
            await trio.sleep(CHECK_S)

    async def _break_disk(self, op: faults.BreakDisk, broker: Broker) -> None:
        """Make one call fail, or the disk full for a time. A broker without another disk ends because of that."""
        self.cluster.excused.add(broker)
        broker.fail_disk(op.error, op.nth - 1)
        try:
            await self.cluster.sleep(op.down_ms)
        finally:
            if broker.up and broker.disk_fails and op.error != "full":
                self.cluster.excused.discard(broker)  # the call that was to fail was not made
            broker.heal()
        self.cluster.revive(broker)

    # -- the network -----------------------------------------------------------------------------------

    async def _lose_store(self, op: faults.LoseStore, broker: Broker) -> None:
        await self.block(self._fleet.links.to_store(broker.sid), op.for_ms)

    async def _lose_controller(self, op: faults.LoseController, broker: Broker) -> None:
        await self.block(self._fleet.links.to_control(broker.sid), op.for_ms)

    async def _cut(self, op: faults.CutBroker, broker: Broker) -> None:
        await self.block(self._fleet.links.to_data(broker.sid), op.for_ms)

    async def _slow(self, op: faults.SlowBroker, broker: Broker) -> None:
        await self.slow(self._fleet.links.sent_by(broker.sid), op.more_ms, op.for_ms)


_TARGETED: Final[dict[type, Callable[[Any, Any, Broker], Awaitable[None]]]] = {
    faults.KillBroker: BrokersNemesis._kill,
    faults.LosePower: BrokersNemesis._kill,
    faults.BounceBroker: BrokersNemesis._kill,
    faults.WipeBroker: BrokersNemesis._wipe,
    faults.BreakDisk: BrokersNemesis._break_disk,
    faults.PauseBroker: BrokersNemesis._pause,
    faults.LoseStore: BrokersNemesis._lose_store,
    faults.LoseController: BrokersNemesis._lose_controller,
    faults.CutBroker: BrokersNemesis._cut,
    faults.SlowBroker: BrokersNemesis._slow,
}
FAULTS: Final = (*_TARGETED, faults.Depart, faults.Blackout, faults.PartBrokers)
