"""`zab status`: the state of an ensemble in one table."""
