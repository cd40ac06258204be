"""The coordination store, a pure state machine: znodes, sessions, watches, ACLs. Time and randomness are arguments."""
