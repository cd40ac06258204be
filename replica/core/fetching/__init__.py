"""Fetch requests: sent by followers to their leaders, and answered for followers and consumers."""
