"""What a broker remembers: the logs of its partitions, in files or in memory."""
