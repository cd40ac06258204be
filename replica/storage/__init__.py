"""The partition logs of a broker, on disk."""
