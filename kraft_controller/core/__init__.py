"""The decisions of the controller, and those of brokers about its election and its commands, without I/O."""
