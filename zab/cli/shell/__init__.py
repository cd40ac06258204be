"""`zab shell`: the commands of ZooKeeper's shell, at a prompt or one at a time."""
