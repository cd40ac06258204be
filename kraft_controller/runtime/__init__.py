"""Sessions, tasks, timers and sockets for the state machines in `core`."""
