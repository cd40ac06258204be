"""A disk that fails under a running broker: what was on it is given up here, and led by others.

Nobody else can know. So the controller is told by a note in the store; it asks this broker what is left, and elects
others where something is missing. A broker whose last directory has failed ends: it would only be in the way.
"""

from __future__ import annotations

import logging
from typing import Final

import trio

import zab
from kraft_controller.core.names import BrokerId
from kraft_controller.wire import znodes
from replica.runtime.logs import Log
from replica.runtime.replication.log_manager_runtime import LogManagerRuntime
from replica.runtime.replication.replica_manager_runtime import ReplicaManagerRuntime
from replica.storage.files import StorageFailure
from zab.net.wakeup import Wakeup

CHECK_S: Final = 1.0
NOTE: Final = f"{znodes.LOG_DIR_EVENTS}/log_dir_event_"


class LogDirFailureHandler:
    def __init__(self, me: BrokerId, disk: LogManagerRuntime, replication: ReplicaManagerRuntime, log: Log) -> None:
        self._me = me
        self._disk = disk
        self._replication = replication
        self._log = log
        self._given_up: dict[str, str] = {}
        self._bell = Wakeup()

    async def run(self) -> None:
        """For the life of the broker. Raises `StorageFailure` when no directory is left."""
        while True:
            await trio.sleep(CHECK_S)
            for directory, why in self._disk.failed.items():
                if directory not in self._given_up:
                    self._give_up(directory, why)
            if len(self._given_up) == self._disk.directories:
                raise StorageFailure(f"no log directory is left: {'; '.join(self._given_up.values())}")

    def _give_up(self, directory: str, why: str) -> None:
        lost = self._disk.partitions_in(directory)
        self._log.say("directory-failed", logging.ERROR, directory=directory, partitions=len(lost), why=why)
        for where in lost:
            self._replication.disk_failed(where, why)
        self._given_up[directory] = why
        self._bell.ring()

    async def tell(self, session: zab.Session) -> None:
        """For as long as the session lasts. With the next one it is said again: a note may have been lost."""
        told = 0
        while True:
            while len(self._given_up) == told:
                await self._bell.wait()
            told = len(self._given_up)
            await session.create(NOTE, znodes.log_dir_event(self._me), sequential=True)
