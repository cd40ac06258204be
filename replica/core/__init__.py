"""What a replica, a partition and a group decide: pure, with time as an argument."""
