"""The decisions of the controller and of brokers about it, as pure state machines and procedures."""
