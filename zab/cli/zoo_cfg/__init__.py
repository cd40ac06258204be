"""ZooKeeper's configuration file: its keys, and the plan of a server that follows from it."""
