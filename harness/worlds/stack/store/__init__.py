"""The coordination store in the simulated runtime: `run_server` on each server, and clients of `zab.connect`."""
