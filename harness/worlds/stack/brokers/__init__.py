"""Brokers as shipped on virtual time, with simulated sockets, disks in memory, and the store of this world."""
