"""Bytes and values: the requests of Kafka's protocol and their replies, and record batches. Pure."""
