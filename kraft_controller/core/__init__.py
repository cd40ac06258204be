"""The controller's decisions, and those of brokers toward it, as pure state machines and procedures."""
