"""Fetch requests: the requests of a follower to its leaders, and the answers to followers and consumers."""
