"""Reads and writes in the store that a broker makes for its clients."""
