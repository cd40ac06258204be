"""The simulated runtime: the Trio runtime as shipped, on virtual time, in one process, deterministic.

What a run depends on, and how each of it is made a function of the script:

Order of tasks   Trio shuffles what is ready to run. `scheduler` seeds that shuffle, and has Trio sort before it.
                 Then neither ties between deadlines nor the order of sets of tasks, which go by addresses in
                 memory, are seen: they only decide in which order tasks become ready, never whether.
Time             Trio's mock clock, which jumps when every task waits. The runtime reads Trio's clock; the wall
                 clock comes through `zab.runtime.environment.Environment`, and the writer is given a clock of its own.
Threads          There are none. `Environment.in_thread` runs the job in the loop, after a delay by chance, and the
                 writer is a task that sleeps for as long as an fsync takes (`writer`).
Chance           `Environment.random_bytes` and everything here is drawn from generators that the script seeds.
Network, disk    Streams in memory behind `zab.net.network.Network` (`network`), and `MemoryDisk`.
Events           `simulation` keeps one heap of everything that is not a member's own: deliveries, faults, workload.

The checkers are told by the node (`node`), by the writer, and by the machine; a crash takes everything from a server
(`server`) at one instant, and only then cancels its tasks. `members`, `store`, `controller` and `brokers` are the
clusters that a script can ask for, and `world` is all this as the commands see it.
"""
