"""The shell of a server: sockets, threads and clocks around the pure layers, which make every decision."""
