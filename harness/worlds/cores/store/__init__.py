"""The simulator of cores that replicates the coordination store, with clients outside of the servers."""
