"""Handling of disk failures: the broker takes the logs of a failed directory offline, and the controller elects other
leaders.

Only this broker can detect the failure. It writes a notification to the store, and the controller then asks the broker
which replicas are left. A broker without any working directory stops, since it cannot serve anything.
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
"""The pause before retrying a failed notification."""


class LogDirFailureHandler:
    """Takes the replicas of failed directories offline, and notifies the controller of each failed directory or log."""

    def __init__(
        self, me: BrokerId, log_manager: LogManagerRuntime, replica_manager: ReplicaManagerRuntime, log: Log
    ) -> None:
        self._me = me
        self._log_manager = log_manager
        self._replica_manager = replica_manager
        self._log = log
        self._given_up: dict[str, str] = {}
        """Failed directories whose replicas are offline, with the reason."""

    async def run(self) -> None:
        """Check until cancelled. Raise `StorageFailure` if no directory works."""
        while True:
            await trio.sleep(CHECK_S)
            for directory, why in self._log_manager.failed.items():
                if directory not in self._given_up:
                    self._give_up(directory, why)
            if len(self._given_up) == self._log_manager.directories:
                raise StorageFailure(f"all log directories have failed: {'; '.join(self._given_up.values())}")

    def _give_up(self, directory: str, why: str) -> None:
        lost = self._log_manager.partitions_in(directory)
        self._log.say("log_dir_failed", logging.ERROR, directory=directory, partitions=len(lost), why=why)
        for where in lost:
            self._replica_manager.disk_failed(where, why)
        self._given_up[directory] = why
        self._replica_manager.log_failed.ring()

    async def notify_controller(self, session: zab.Session) -> None:
        """Notify the controller of failures while the session lasts.

        If a directory has failed, each new session repeats the notification, since the previous notification may be
        lost. A duplicate is harmless.
        """
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
    """Ask the controller to check which replicas of this broker are left, and to elect other leaders."""
    await session.create(LOG_DIR_NOTICE, znodes.log_dir_event(broker), sequential=True)
