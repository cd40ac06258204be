"""Reports about a run, for people."""
