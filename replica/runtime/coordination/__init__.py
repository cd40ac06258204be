"""The runtime side of the group and transaction coordinators, and of the topics that hold their state."""
