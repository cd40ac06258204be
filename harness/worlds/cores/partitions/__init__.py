"""Simulated brokers with data: cores that replicate partitions, on disks that fail, with their clients."""
