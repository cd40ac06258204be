"""The controller's metadata as znodes in Kafka's layout, and its commands as frames."""
