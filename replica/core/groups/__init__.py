"""Consumer groups: who reads which partitions together, and how far they are. A coordinator that only computes."""
