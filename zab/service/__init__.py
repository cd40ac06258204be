"""The decisions of a store server for its clients: connections, sessions, requests, throttles. Pure: no I/O."""
