"""Wire and file formats: bytes to values and back, without I/O.

- `frames` has the length framing of all protocols.
- Between servers, `peer` has the table of messages, `fields` the types and ranges of their fields, `greeting` the
  handshake, and `snapshot_pieces` the division of chunks that are larger than a frame. Consensus messages are in
  `zab.core.messages`, all others in `relay_messages`.
- `client` and `sasl` have ZooKeeper's client protocol, on top of the encoding in `jute`.
- `apache` has the protocol between servers of ZooKeeper: elections, packets on learner links, the state after SNAP.
- `disk_files`, `disk_log`, `disk_txn`, `disk_snapshot` and `disk_compression` have ZooKeeper's files, for import and
  export. `disk_source` reads them, and `disk_store` converts between them and our store.
- `certificates` and `jks` read certificates and key stores.

Decoders check the bytes that they read. Malformed bytes of a connection, a certificate or a key store raise
`WireError`; a request of a client that cannot be decoded becomes a `RejectedRequest`; damaged logs, snapshots and
epoch files of ZooKeeper raise `DamagedError`; a bad line of a dynamic configuration file raises `ConfigError`. The
formats of our own log and snapshots are in `zab.storage`.
"""
