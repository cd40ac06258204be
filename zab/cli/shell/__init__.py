"""`zab shell`: the commands of ZooKeeper's own shell, by hand or one at a time."""
