"""Brokers with data around the store: cores that replicate partitions, on disks that fail, with their clients."""
