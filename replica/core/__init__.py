"""The state machines of a broker: replicas, groups, transactions. They do not wait, and get the time as an
argument."""
