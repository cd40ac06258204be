"""Simulated brokers that are clients of the store. One of them is the controller."""
