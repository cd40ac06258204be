"""The runtime side of replication: logs on disk, fetching from leaders, ISR changes in the store."""
