"""The controller at work: a session with the store, an election, one event at a time, and links to the brokers."""
