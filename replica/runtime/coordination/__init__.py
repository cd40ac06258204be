"""The runtime side of the group and transaction coordinators, and the topics that hold their state."""
