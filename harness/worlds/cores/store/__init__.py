"""The cores world with the coordination store as what is replicated, and clients outside of the servers."""
