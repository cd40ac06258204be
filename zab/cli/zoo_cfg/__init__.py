"""ZooKeeper's configuration file: its keys, and the `ServerPlan` made from it."""
