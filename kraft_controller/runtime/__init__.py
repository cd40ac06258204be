"""Sessions, tasks, timers and sockets around the pure parts in `core`."""
