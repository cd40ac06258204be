"""Carry requests to the leader, and their outcomes back."""
