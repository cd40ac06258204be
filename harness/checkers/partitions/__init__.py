"""The invariants of replication, checked with every step of a simulated broker."""
