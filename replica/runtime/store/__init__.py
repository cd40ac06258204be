"""Reads and writes of the store that a broker makes for its clients."""
