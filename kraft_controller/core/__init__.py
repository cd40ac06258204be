"""The decisions of the controller, and of brokers that deal with it, as pure state machines and procedures."""
