"""One connection of a client as a pure state machine. `client_connection` composes it of the other modules' parts."""
