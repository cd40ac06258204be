"""Brokers as they are shipped, on virtual time: over virtual sockets, on disks in memory, on the store of this world.

`sockets`    what Trio opens streams with: ends of the world's network
`machine`    threads, clocks and chance of a process, as the script decides them
`broker`     a broker's disk, and the processes that live on it one after the other
`workload`   what a script asks of brokers, and does to them; the clients of `harness.worlds.brokers`
`liveness`   what is waited for when all is healed
`world`      a run
"""
