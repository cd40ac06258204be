"""The disk: what is synced before what, what recovery believes, what is purged."""

from __future__ import annotations

from typing import Final

from harness.mutants.edit import Mutant, mutant

STORAGE: Final = "zab.storage.storage:Storage"
RECOVERY: Final = "zab.storage.recovery"

MUTANTS: Final[tuple[Mutant, ...]] = (
    mutant(
        "M30",
        "ZOOKEEPER-1653, 2354: a server that crashed between writing its history and its epoch does not vote again",
        (
            "zab.storage.history_scan:HistoryScan._check",
            """
            record = self.record
            """,
            """
            record = self.record
            if epoch_of(self.last) > record.current:
                self.damage.append("the history is newer than the current epoch")
            """,
        ),
    ),
    mutant(
        "M31a",
        "ZOOKEEPER-2325, 3231: a damaged history counts as an empty one",
        (
            f"{RECOVERY}:_distrusted",
            """
            epochs.distrust(forgotten=forgotten)
            """,
            """
            empty = Recovered(epochs.record.accepted, epochs.record.current)
            return Recovery(epochs, empty, last=NOTHING, notes=notes)
            """,
        ),
    ),
    mutant(
        "found-is-synced",
        "a server counts writes of its previous process as durable without a sync",
        (f"{RECOVERY}:_settle_tail", "elif walk.last != walk.record.reaches:", "elif False:"),
    ),
    mutant(
        "M31b",
        "ZOOKEEPER-2325: a lost disk counts as a new one",
        (f"{RECOVERY}:_begin", "if not autocreate:", "if False:"),
    ),
    mutant(
        "M31c",
        "ZOOKEEPER-1797: purging removes log files that the kept snapshots still need",
        (
            "zab.storage.transaction_log:TransactionLog.purge",
            "while len(self.segments) > 1 and self.segments[1].previous <= zxid:",
            "while len(self.segments) > 1:",
        ),
    ),
    mutant(
        "purge-too-much",
        "a purge deletes a log file with transactions after the oldest snapshot that is kept",
        (
            "zab.storage.transaction_log:TransactionLog.purge",
            "self.segments[1].previous <= zxid",
            "self.segments[0].first <= zxid",
        ),
    ),
    mutant(
        "needless-logs-stay",
        "log files that no snapshot needs are never deleted",
        (
            "zab.storage.transaction_log:TransactionLog.purge",
            "while len(self.segments) > 1 and self.segments[1].previous <= zxid:",
            "while False:",
        ),
    ),
    mutant(
        "void-logs-stay",
        "log files that a snapshot of the leader has replaced are never deleted",
        (
            "zab.storage.install:finish",
            'if name.startswith((segment.PREFIX, SNAPSHOT)) and not name.endswith(".tmp"):',
            "if name.startswith(SNAPSHOT):",
        ),
        ("zab.storage.storage:Storage._remove_before", "if first < self._log.oldest:", "if False:"),
    ),
    mutant(
        "needless-snapshots-stay",
        "snapshots beyond the configured number are never deleted",
        ("zab.storage.storage:Storage._remove_before", "if zxid < oldest:", "if False:"),
    ),
    mutant(
        "M34",
        "ZOOKEEPER-2247: a server that cannot write its log continues",
        (
            f"{STORAGE}.perform",
            """
            except BaseException as error:
                self._failure = error
                raise
            """,
            """
            except BaseException as error:
                pass
            """,
        ),
    ),
    mutant(
        "epoch-saved-before-the-log",
        "the disk writes an epoch before the history that was queued earlier",
        (f"{STORAGE}._save_epochs", "self._log.sync()", "pass"),
    ),
    mutant(
        "epochs-not-synced",
        "the file of the epochs is renamed before it is synced",
        ("zab.storage.disk:write_atomically", "file.sync()", "pass"),
    ),
    mutant(
        "names-not-synced",
        "files are created and renamed without a sync of the directory",
        ("zab.storage.transaction_log:TransactionLog._make_room", "self._disk.sync_dir()", "pass"),
        ("zab.storage.disk:write_atomically", 'disk.sync_dir(name.rpartition("/")[0])', "pass"),
    ),
    mutant(
        "truncation-not-synced",
        "the rest of a truncated log replaces the old file before it is synced",
        ("zab.storage.transaction_log:rewrite", "file.sync()", "pass"),
    ),
    mutant(
        "snapshot-not-synced",
        "a snapshot file is renamed before it is synced",
        ("zab.storage.snapshot_files:SnapshotFile.place", "file.sync()", "pass"),
    ),
    mutant(
        "torn-tail-is-damage",
        "a torn tail counts as damage: a server that lost power during a write never votes again",
        (
            "zab.storage.torn_tail:contradiction",
            "if _has_unwritten_sector(data, at, end) or _stops_short(data, at, end):",
            "if False:",
        ),
    ),
    mutant(
        "damage-is-a-torn-tail",
        "an unreadable end of the log is always cut off as a torn tail",
        (
            "zab.storage.torn_tail:contradiction",
            """
            head = decode_record_head(data, at, segment.seed)
            """,
            """
            return None
            """,
        ),
        ("zab.storage.history_scan:HistoryScan._check", "if self.last < record.reaches:", "if False:"),
    ),
)
