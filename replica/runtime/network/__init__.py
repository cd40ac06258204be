"""Sockets of a broker: its listeners, the connections of clients, and its own connections to other brokers."""
