"""What acts: sockets, threads, clocks. Everything it decides, it asks the core."""
