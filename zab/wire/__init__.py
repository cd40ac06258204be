"""Bytes to values and back, between servers. Pure: what it is given decides what it returns."""
