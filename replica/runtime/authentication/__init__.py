"""Authentication: SASL at a listener and toward other brokers, and the credentials in the store."""
