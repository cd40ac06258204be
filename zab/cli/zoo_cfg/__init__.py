"""ZooKeeper's configuration file: its keys, and the plan that `zab serve` makes of it."""
