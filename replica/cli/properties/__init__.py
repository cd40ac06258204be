"""Kafka's `server.properties`: its keys, and their translation to a broker's configuration."""
