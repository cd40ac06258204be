"""The state machines of a broker: replicas, groups, transactions. They are pure, with the time as an argument."""
