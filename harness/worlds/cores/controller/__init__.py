"""Brokers around the store: each a client of it, and one of them the controller."""
