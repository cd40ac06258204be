"""The decisions of a member and of a store server, for example about requests, sessions and health. Pure: no I/O."""
