"""The coordination store as a pure machine: znodes, sessions, watches, ACLs. Time and randomness are arguments."""
