"""Histories of clients of brokers: told by hand, made by a broker that keeps its promises, and spoilt by lies."""
