"""Storage: the log, the snapshots and the epochs record of one server, on a disk.

**Durable when.** `storage.Storage.perform` returns after everything in its writes is durable. The log is synced once
for all batches of a call. The epochs record is replaced by a rename, and only after the log before it is synced. A
snapshot counts from the rename that gives it its name. A snapshot from the leader replaces the whole history with one
rename, to `install.<zxid>`.

**Distrusted at recovery.** Every byte: each record, header and snapshot has checksums. Every absence: a log record
names its predecessor, the epochs record names the newest segment and how far the history reached. Every cached page:
the last group is written and synced again. Recovery cuts a torn tail, ignores damage that a newer snapshot replaces,
and otherwise offers no history at all: the server then does not vote until a leader has sent it a snapshot.

`storage` performs the writes; `recovery`, with `history_scan` and `torn_tail`, reads everything back. The files are in
`epochs`, `transaction_log` with `segment`, and `snapshot_files` with `install` and `damaged_files`. `disk` is the
protocol below all of them and of the partition logs of brokers; `real_disk`, `memory_disk` (which crashes on request)
and `split_disk` implement it.
`inspection` reads a directory without changing it, and `offline` changes that of a stopped server.
"""
