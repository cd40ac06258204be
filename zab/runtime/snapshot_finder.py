"""Find the file that holds the rest of a snapshot, when the node asks for it.

A learner whose synchronization was interrupted keeps the part that it has received. If its leader has a file with the
same snapshot, the leader sends only the rest. The search reads the disk, so it runs in a task of its own, not in a
turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial

import trio

from zab.core.errors import StorageError
from zab.core.messages import SnapHeld
from zab.core.node import Node
from zab.core.ready import FindSnapshot, FoundSnapshot
from zab.core.zxid import show
from zab.host.logs import Log
from zab.host.pace import beside_the_loop
from zab.net.wakeup import Wakeup
from zab.runtime.environment import REAL_ENVIRONMENT, Environment
from zab.runtime.inbox import Inbox
from zab.runtime.snapshot_taker import SnapshotTaker
from zab.storage.storage import Storage


class SnapshotFinder:
    """Answers the node's questions one after the other. An answer reaches the node in a later turn."""

    def __init__(
        self,
        node: Node,
        inbox: Inbox,
        storage: Storage,
        snapshots: SnapshotTaker,
        log: Log,
        environment: Environment = REAL_ENVIRONMENT,
    ) -> None:
        self._node = node
        self._inbox = inbox
        self._storage = storage
        self._snapshots = snapshots
        self._log = log
        self._environment = environment
        self._questions: deque[FindSnapshot] = deque()
        """Questions whose search has not begun, the oldest first."""
        self._asked = Wakeup()
        self._limiter = trio.CapacityLimiter(1)

    def ask(self, questions: Sequence[FindSnapshot]) -> None:
        """Queue questions of the node."""
        self._questions += questions
        self._asked.ring()

    async def run(self) -> None:
        """Answer questions until cancelled."""
        while True:
            await self._asked.wait()
            while self._questions:
                question = self._questions.popleft()
                found = await self.find(question.held)
                self._inbox.call(partial(self._node.found, question, found))

    async def find(self, held: SnapHeld) -> FoundSnapshot | None:
        """Return the file that begins with the part that a learner holds; None if there is none, or it is unreadable.

        If the file is still being written, wait for its end.
        """
        await self._snapshots.wait_written(held.zxid)
        try:
            with beside_the_loop():
                return await self._environment.in_thread(
                    partial(self._storage.find_snapshot, held), limiter=self._limiter
                )
        except StorageError as error:
            self._log.say("snapshot_unreadable", "warning", zxid=show(held.zxid), why=error)
            return None
