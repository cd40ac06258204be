"""Fetches: of followers from their leader, and the leader's answers to followers and consumers."""
