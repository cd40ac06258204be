"""Encoding and decoding: Kafka's requests and responses, and record batches."""
