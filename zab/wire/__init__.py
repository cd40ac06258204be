"""Wire and file formats: bytes to values and back, without I/O.

`frames` has the length framing of all protocols. Between servers: `peer` has the table of messages (consensus messages
are in `zab.core.messages`, the others in `relay_messages`), `fields` their types and ranges, `greeting` the handshake,
and `snapshot_pieces` cuts chunks that are larger than a frame. With ZooKeeper's clients: `client`, on the encoding in
`jute`, and `sasl`. Files of ZooKeeper, for import and export: `disk_files`, `disk_log`, `disk_txn`, `disk_snapshot`,
`disk_compression`, read through `disk_source`; `disk_store` converts between them and our store. Certificates and key
stores: `certificates`, `jks`.

A decoder checks everything: malformed bytes of a connection raise `WireError`, those of a file `DamagedError`. The
formats of our own log and snapshots are in `zab.storage`.
"""
