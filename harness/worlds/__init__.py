"""The worlds in which a script can run."""
