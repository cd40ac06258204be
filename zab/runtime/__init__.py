"""The shell of a server: sockets, threads and clocks around the pure floors, which make every decision."""
