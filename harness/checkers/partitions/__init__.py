"""What brokers promise of the records that they replicate, and whether they keep it: looked at with every step."""
