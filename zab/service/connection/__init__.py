"""One connection of a client as a pure state machine. `client_connection` composes the parts in the other modules."""
