"""The runtime of a server: sockets, threads and clocks around the pure layers, which do no input or output."""
