"""The decisions of a member and of a store server: requests, clients, sessions, throttles, health. Pure: no I/O."""
