"""The logs of a broker's partitions, on a disk."""
