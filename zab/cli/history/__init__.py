"""What stands on disks, ours and ZooKeeper's, for people to look at and to move."""
