"""`zab status`: how an ensemble is, in one look."""
