"""The sockets of a broker: its listeners, client connections, and its own connections to other brokers."""
