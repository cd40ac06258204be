"""A store server's part in the membership: it follows changes, and carries out those that its clients request.

`ConfigNode` makes the decisions.
"""

from __future__ import annotations

from zab.core.ensemble import Ensemble
from zab.core.errors import ZabError
from zab.core.zxid import Zxid
from zab.net.wakeup import Wakeup
from zab.runtime.member import Member
from zab.service.client_sessions import BARRIER
from zab.service.config_node import Answer, ConfigNode
from zab.store.operations import Fields


class ServerMembership:
    """Carries out the steps of `ConfigNode` at the member, and reports a moved client address."""

    def __init__(self, member: Member, config_node: ConfigNode) -> None:
        self._member = member
        self._config_node = config_node
        self._address_moved = Wakeup()
        """Rung when a new membership gives this server another address for clients."""
        member.on_membership(self._on_membership)

    def _on_membership(self, ensemble: Ensemble, zxid: Zxid | None) -> None:
        if self._config_node.on_membership(ensemble, zxid):
            self._address_moved.ring()

    def restored(self) -> None:
        """Bring the configuration node up to date: a snapshot has replaced the state."""
        self._config_node.restored()

    async def address_moved(self) -> tuple[str | None, int]:
        """Wait until a new membership gives this server another address for clients, and return the address."""
        while True:
            await self._address_moved.wait()
            address = self._config_node.client_address
            if address is not None:
                return address

    async def change(self, fields: Fields) -> Answer:
        """Carry out the steps of a reconfiguration that the leader has permitted. Return the answer for the client."""
        member = self._member
        if member.zookeeper is not None:
            return self._config_node.changed()  # the request was forwarded like a write, and is carried out already
        steps = self._config_node.change(fields, lambda: member.status().ensemble)
        try:
            step = next(steps)
            while True:
                try:
                    if step is BARRIER:
                        await member.barrier()
                    else:
                        await member.reconfigure(members=step, expect_version=step.version)
                except ZabError as error:
                    step = steps.throw(error)
                else:
                    step = next(steps)
        except StopIteration as end:
            answer: Answer = end.value
            return answer
        finally:
            steps.close()
