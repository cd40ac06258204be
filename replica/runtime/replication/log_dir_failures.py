"""The failure of a disk: the broker gives up the logs on it, and the controller elects other leaders.

Only this broker can notice the failure. It leaves a notification in the store; the controller then asks the broker
which replicas are left. A broker without any working directory ends, since it could serve nothing.
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
from replica.wire.isr_requests import LOG_DIR_NOTICE

CHECK_S: Final = 1.0
AGAIN_S: Final = 0.5
"""The pause before a notification that failed is written again."""


class LogDirFailureHandler:
    """Gives up failed directories, and notifies the controller of each failure of a directory or a log."""

    def __init__(
        self, me: BrokerId, log_manager: LogManagerRuntime, replica_manager: ReplicaManagerRuntime, log: Log
    ) -> None:
        self._me = me
        self._log_manager = log_manager
        self._replica_manager = replica_manager
        self._log = log
        self._given_up: dict[str, str] = {}
        """Failed directories whose replicas are given up, and the reason."""

    async def run(self) -> None:
        """Check until cancelled. Raise `StorageFailure` when no directory is left."""
        while True:
            await trio.sleep(CHECK_S)
            for directory, why in self._log_manager.failed.items():
                if directory not in self._given_up:
                    self._give_up(directory, why)
            if len(self._given_up) == self._log_manager.directories:
                raise StorageFailure(f"no log directory is left: {'; '.join(self._given_up.values())}")

    def _give_up(self, directory: str, why: str) -> None:
        lost = self._log_manager.partitions_in(directory)
        self._log.say("log_dir_failed", logging.ERROR, directory=directory, partitions=len(lost), why=why)
        for where in lost:
            self._replica_manager.disk_failed(where, why)
        self._given_up[directory] = why
        self._replica_manager.log_failed.ring()

    async def notify_controller(self, session: zab.Session) -> None:
        """Notify the controller while the session lasts. A new session repeats the notification: the last may be
        lost, and one too many does no harm."""
        failed = self._replica_manager.log_failed
        if self._given_up:
            failed.ring()
        while True:
            await failed.wait()
            try:
                await notify_of_log_failure(session, self._me)
            except zab.ZabError as error:
                self._log.warn_rate_limited("log_dir_failure_notification_failed", "", why=error)
                failed.ring()
                await trio.sleep(AGAIN_S)


async def notify_of_log_failure(session: zab.Session, broker: BrokerId) -> None:
    """Have the controller ask this broker which replicas are left, and elect other leaders."""
    await session.create(LOG_DIR_NOTICE, znodes.log_dir_event(broker), sequential=True)
