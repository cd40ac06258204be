"""ZooKeeper's configuration file, read as ZooKeeper reads it."""
