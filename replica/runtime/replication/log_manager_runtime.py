"""The runtime side of a broker's `LogManager`: its replicas' logs, retention, cleaning, flushes and checkpoints.

Short calls run in the event loop. Long ones, such as loading, flushes and cleaning, run in threads.
"""

from __future__ import annotations

import logging
import math
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, cast

import trio
from attrs import asdict, frozen

from kraft_controller.core.names import BrokerId, TopicId, TopicPartition
from replica.core.errors import ErrorCode, KafkaError
from replica.core.partitions.partition_log import PartitionLog
from replica.runtime.configuration.topic_configs import TopicConfigs
from replica.runtime.environment import REAL_ENVIRONMENT, Environment
from replica.runtime.logs import Log
from replica.runtime.requests import ignore
from replica.storage import log_manager
from replica.storage.checkpoint_files import METADATA
from replica.storage.log_manager import LogManager, ManagerSettings
from zab.net.wakeup import Wakeup

Watermarks = Mapping[TopicPartition, int]
_MS: Final = 1000
SLICE_S: Final = 0.005
FIRST_RETENTION_S: Final = 30.0
"""The first retention check begins at most this long after the start. Later checks follow the interval."""
CONFIGS_KNOWN_S: Final = 30.0
"""The longest time that `make_room` waits for the settings of topics. It then skips the logs of topics whose
settings are still unknown."""
REST: Final = 3
"""Retention runs for at least `SLICE_S`, then pauses for this many times as long.

There may be thousands of logs, and each may wait twenty milliseconds for a busy disk.
"""


@frozen
class LogSize:
    """The size of a log in bytes, and its end offset."""

    where: TopicPartition
    size: int
    end_offset: int


CLEAN_PAUSE_LEAST_S: Final = 0.01
"""The shortest pause of the cleaner, which would otherwise run without a pause if `log.cleaner.backoff.ms=0`."""


LOADING_S: Final = 2.0
"""The shortest time between two log lines about the progress of loading."""


@frozen
class LogManagerPace:
    """flush_check_s       the interval of checks for logs whose flush is due
    checkpoint_s        the interval of checkpoints of recovery points and log start offsets
    retention_check_s   `log.retention.check.interval.ms`
    clean_pause_s       `log.cleaner.backoff.ms`: the interval of checks for logs to compact
    sweep_s             the interval of checks for files to delete after `file.delete.delay.ms`, indexes to unload and
                        producers to remove
    """

    flush_check_s: float = log_manager.FLUSH_CHECK_MS / _MS
    checkpoint_s: float = log_manager.CHECKPOINT_MS / _MS
    retention_check_s: float = log_manager.RETENTION_CHECK_MS / _MS
    clean_pause_s: float = log_manager.CLEANER_BACKOFF_MS / _MS
    sweep_s: float = 10.0


def _plain(watermarks: Watermarks) -> Mapping[tuple[str, int], int]:
    """Cast the keys to plain pairs of topic and partition number."""
    return cast("Mapping[tuple[str, int], int]", watermarks)


class LogManagerRuntime:
    """Owns the log directories of a broker. The constructor locks the usable ones. It raises `StorageFailure` if none
    is usable, or if another process uses one."""

    def __init__(
        self,
        directories: tuple[Path, ...],
        configs: TopicConfigs,
        log: Log,
        now: Callable[[], int],
        pace: LogManagerPace | None = None,
        settings: ManagerSettings | None = None,
        *,
        cleans: bool = True,
        environment: Environment = REAL_ENVIRONMENT,
    ) -> None:
        paths = [str(each) for each in directories]
        self._logs = LogManager.open(
            paths, configs.__getitem__, settings, environment.draw, open_directory=environment.open_directory
        )
        self.in_thread = environment.in_thread
        self.cleans = cleans
        """`log.cleaner.enable`: True if logs with cleanup.policy=compact are compacted."""
        self.mismatched_logs: dict[TopicPartition, str] = {}
        """Logs that this broker does not use because their topic id differs from the store's, with the reason."""
        self._reported_uncleanable: set[TopicPartition] = set()
        """The uncleanable partitions for which a `log_uncleanable` line was logged."""
        self._configs = configs
        self._log = log
        self._now = now
        self._pace = pace or LogManagerPace()
        self.clean_pause_s = self._pace.clean_pause_s
        """`log.cleaner.backoff.ms`, in seconds"""
        self._clean_pause_changed = Wakeup()

    # -- the start and the end -------------------------------------------------------------------------------

    async def load(self, me: BrokerId, cluster: str) -> None:
        """Load the logs of all usable directories, and report damaged logs.

        Raise if a directory belongs to another broker or cluster, if two directories have the same partition, or if no
        directory is usable.
        """
        began = trio.current_time()
        await self.in_thread(partial(self._logs.load, me, cluster, self._progress_of_loading()))
        for note in self._logs.notes:
            self._log.say("found", logging.WARNING, why=note)
        took = f"{trio.current_time() - began:.3f}"
        self._log.say("logs_loaded", logs=len(self._logs.logs), clean=self._logs.was_clean, s=took)
        for where, error in self._logs.damaged.items():
            self._log.say("log_damaged", logging.ERROR, partition=TopicPartition(*where), why=error.text)

    def _progress_of_loading(self) -> Callable[[int, int], None]:
        """Return a callback for the loading thread that logs the progress, at most once every `LOADING_S`."""
        reported = began = time.monotonic()

        def progress(done: int, total: int) -> None:
            nonlocal reported
            now = time.monotonic()
            if now - reported >= LOADING_S:
                reported = now
                self._log.say("logs_loading", done=done, of=total, s=f"{now - began:.1f}")

        return progress

    async def make_room(self) -> None:
        """Delete old segments in nearly full directories before the first append.

        Otherwise, on a full disk, the first append would fail after each start, even if an administrator has shortened
        the retention meanwhile. Retention needs the settings of topics, so wait for them, for at most
        `CONFIGS_KNOWN_S`. A log without known settings keeps everything.
        """
        topics = self._logs.topics_short_of_room()
        with trio.move_on_after(CONFIGS_KNOWN_S):
            await self._configs.until_known(topics)
        if not topics:
            return
        try:
            gone = await self.in_thread(partial(self._logs.make_room, self._now(), self._configs))
            if gone:
                self._log.say("segments_deleted", count=gone, why="the log directory was nearly full")
                await self.in_thread(self._logs.checkpoint)
        except KafkaError as error:
            self._log.warn_rate_limited("disk", error.text, logging.ERROR, why=error)

    @property
    def directories(self) -> int:
        return len(self._logs.directories)

    @property
    def paths(self) -> dict[str, str | None]:
        """Each directory, with the reason why it is unusable; None for a usable one."""
        return {each.files.where: self.failed.get(each.files.where) for each in self._logs.directories}

    def held_in(self, directory: str) -> list[LogSize]:
        found = (each for each in self._logs.directories if each.files.where == directory)
        return sorted(
            (
                LogSize(TopicPartition(*where), log.size, log.end_offset)
                for each in found
                for where, log in each.logs.items()
            ),
            key=lambda held: held.where,
        )

    def partitions_in(self, directory: str) -> list[TopicPartition]:
        """Return the partitions with a log in this directory, except logs that could not be opened or went
        offline without a failure of the directory."""
        found = (each for each in self._logs.directories if each.files.where == directory)
        return sorted(TopicPartition(*where) for each in found for where in each.logs)

    @property
    def failed(self) -> dict[str, str]:
        """Unusable directories, with the reason."""
        return {each.files.where: each.failed.text for each in self._logs.directories if each.failed is not None}

    @property
    def damaged(self) -> dict[TopicPartition, str]:
        """Logs that became unusable without a failure of their directory, with the reason."""
        return {TopicPartition(*where): error.text for where, error in self._logs.damaged.items()}

    @property
    def uncleanable(self) -> dict[TopicPartition, str]:
        """Logs that the cleaner no longer compacts, with the reason."""
        return {TopicPartition(*where): error.text for where, error in self._logs.uncleanable.items()}

    async def close(self, epoch: int) -> None:
        await self.in_thread(partial(self._logs.close, epoch))

    # -- logs of replicas ------------------------------------------------------------------------------------

    def open(self, where: TopicPartition, topic_id: TopicId | None, *, begins: bool) -> PartitionLog:
        logs = self._logs
        self.mismatched_logs.pop(where, None)
        ident = None if topic_id is None else urlsafe_b64decode(f"{topic_id}==")
        kept = logs.topic_id(where)
        if ident is not None and kept is not None and kept != ident:
            if not begins:
                # This broker is in the ISR, so it had a log of this topic. That may be this log, with a wrong topic id
                # in its `partition.metadata`.
                self.mismatched_logs[where] = why = _mismatch(logs.folder(where), kept, topic_id)
                raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, why)
            # The topic of this log was deleted while this broker was down. Ids are never reused.
            aside = logs.set_aside(where)
            self._log.say("log_set_aside", logging.WARNING, partition=where, kept=aside, topic_id=topic_id)
        elif ident is not None and kept is None and logs.directory_of(where) is not None:
            logs.keep_topic_id(where, ident)  # the file is missing, or was malformed and deleted
        return logs.get_or_create(where, ident, begins=begins)

    def high_watermark(self, where: TopicPartition) -> int:
        return self._logs.high_watermark(where)

    def take_offline(self, where: TopicPartition, why: str) -> None:
        self._logs.take_offline(where, why)

    def delete(self, where: TopicPartition) -> None:
        self.mismatched_logs.pop(where, None)
        if self._logs.directory_of(where) is not None:
            self._logs.delete(where, self._now())

    def keep_high_watermarks(self, watermarks: Watermarks) -> None:
        self._logs.checkpoint_high_watermarks(_plain(watermarks))

    def reconfigure(self, topic: str) -> None:
        self._logs.reconfigure(topic)

    # -- periodic work ------------------------------------------------------------------------------------------

    async def run(self, watermarks: Callable[[], Watermarks], retired: Callable[[], None] = ignore) -> None:
        """Run the periodic tasks until cancelled.

        `watermarks` returns the high watermarks, beyond which nothing is cleaned or deleted. `retired` is called after
        segments were deleted.
        """
        pace, logs, now = self._pace, self._logs, self._now

        def known() -> Watermarks:
            """Return the watermarks of topics with known settings. Logs of other topics keep everything for now."""
            return {where: offset for where, offset in watermarks().items() if where.topic in self._configs}

        async def flush() -> None:
            for log in logs.due_for_flush(now()):
                await self._tried(partial(self.in_thread, log.flush))

        async def clean() -> None:
            while self.cleans:
                done = await self.in_thread(partial(logs.clean_one, now(), _plain(watermarks())))
                uncleanable = self.uncleanable
                for where in uncleanable.keys() - self._reported_uncleanable:
                    self._log.say("log_uncleanable", logging.ERROR, partition=where, why=uncleanable[where])
                self._reported_uncleanable = set(uncleanable)
                if done is None:
                    return
                self._log.say("cleaned", partition=TopicPartition(*done[0]), **asdict(done[1]))

        async def retire() -> None:
            gone, since = 0, trio.current_time()
            try:
                for count in logs.delete_old_segments_of_each(now(), _plain(known())):
                    gone += count
                    spent = trio.current_time() - since
                    if spent >= SLICE_S:
                        await trio.sleep(REST * spent)
                        since = trio.current_time()
            finally:
                if gone:
                    self._log.say("segments_deleted", count=gone)
                    retired()
                    await self.in_thread(logs.checkpoint)  # also after an exception: other logs lost segments

        async def sweep() -> None:
            await self.in_thread(partial(logs.delete_due_files, now()))
            logs.unload()
            logs.expire_producers(int(trio.current_time() * _MS))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._every, pace.flush_check_s, flush)
            nursery.start_soon(self._cleaning, clean)
            nursery.start_soon(self._every, pace.retention_check_s, retire, FIRST_RETENTION_S)
            nursery.start_soon(self._every, pace.sweep_s, sweep)
            nursery.start_soon(self._every, pace.checkpoint_s, partial(self.in_thread, logs.checkpoint))

    def configure_cleaner(self, *, cleans: bool, pause_s: float | None) -> None:
        """Enable or disable the cleaner, and set its pause; None leaves the pause unchanged.

        A new pause applies at once. A disabled cleaner completes the log that it is cleaning.
        """
        self.cleans = cleans
        if pause_s is not None and pause_s != self.clean_pause_s:
            self.clean_pause_s = pause_s
            self._clean_pause_changed.ring()

    async def _cleaning(self, act: Callable[[], Awaitable[None]]) -> None:
        while True:
            with trio.move_on_after(max(self.clean_pause_s, CLEAN_PAUSE_LEAST_S)):
                await self._clean_pause_changed.wait()
                continue
            await self._tried(act)

    async def _every(self, pause_s: float, act: Callable[[], Awaitable[None]], first_s: float = math.inf) -> None:
        wait_s = min(first_s, pause_s)
        while True:
            await trio.sleep(wait_s)
            wait_s = pause_s
            await self._tried(act)

    async def _tried(self, act: Callable[[], Awaitable[object]]) -> None:
        try:
            await act()
        except KafkaError as error:
            # The same error may recur in each round.
            self._log.warn_rate_limited("disk", error.text, logging.ERROR, why=error)
        except Exception as error:
            self._log.failed("disk", error)  # unexpected: try again in the next round


def _mismatch(folder: str, kept: bytes, topic_id: object) -> str:
    of = urlsafe_b64encode(kept).decode().rstrip("=")
    return (
        f"{folder} has topic id {of} in its {METADATA}, but the topic has id {topic_id} in the store, so this broker "
        f"does not use the log. Stop the broker. Then write topic_id: {topic_id} into that file if the log belongs to "
        "the topic in the store, or else move the folder away"
    )
