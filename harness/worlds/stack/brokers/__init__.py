"""Brokers as shipped, on virtual time: over simulated sockets, on disks in memory, on the store of this world."""
