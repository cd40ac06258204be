"""The API of a session with the store, the same in this process and over a connection."""
