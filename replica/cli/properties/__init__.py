"""`server.properties`, as Kafka has it: what of it counts here, and what comes of it."""
