"""Storage: the log, the snapshots and the epochs record of one server, on a disk.

**When a write is durable.** `storage.Storage.perform` returns when its writes are durable, except for the chunks of a
snapshot that is not installed yet. The log is synced at the end of a call, for all of its batches together, and before
the epochs record is replaced by a rename. A snapshot is valid from the rename that gives it its name. A snapshot from
the leader replaces the whole history with one rename, to `install.<zxid>`.

**What recovery checks.** Each record, header and snapshot has checksums. To notice a missing file, each log record
names its predecessor, and the epochs record names the newest segment and the end of the history. If the log goes on
after that end, its last group is written and synced again, because it may have been read from the system's cache only.
Recovery cuts off a torn tail. It reports damage to files that a newer snapshot replaces, and continues. After any other
damage to the history it offers no history at all: the server does not vote until a leader has sent it a snapshot.

`storage` performs the writes; `recovery`, with `history_scan` and `torn_tail`, reads everything back. The files are in
`epochs`, `transaction_log` with `segment`, and `snapshot_files` with `install` and `damaged_files`. `disk` is the
protocol below all of them, and below the partition logs of brokers; `real_disk`, `memory_disk` (which crashes on
request) and `split_disk` implement it. `inspection` reads a directory without changing it, and `offline` changes the
directory of a stopped server.
"""
