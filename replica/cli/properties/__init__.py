"""Kafka's `server.properties`: its keys, and the plan that `zab-broker serve` makes of it."""
