"""The coordination store in the world of real drivers: `run_server` on each server, and clients of `zab.connect`."""
