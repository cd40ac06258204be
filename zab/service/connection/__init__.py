"""One connection of a client as a pure state machine: `client_connection` is the whole, the others are its parts."""
