"""The simulated runtime: the Trio runtime as shipped, on virtual time, in one process, deterministic.

Everything that a run depends on is a function of the script:

Order of tasks   Trio shuffles the tasks that are ready. `scheduler` seeds that shuffle, and makes Trio sort before it.
                 So ties between deadlines and the order of sets of tasks, which depends on addresses in memory, have
                 no effect: they decide in which order tasks become ready, and the sort undoes that order.
Time             Trio's mock clock, which jumps when every task waits. The runtime reads Trio's clock; the wall
                 clock comes through `zab.runtime.environment.Environment`, and the writer has a clock of its own.
Threads          There are none. `Environment.in_thread` runs the job in the loop after a random delay, and the
                 writer is a task that sleeps for the duration of an fsync (`writer`).
Randomness       `Environment.random_bytes` and everything here draws from generators that the script seeds.
Network, disk    Streams in memory (`zab.net.memory_network`), and `MemoryDisk`.
Events           `simulation` keeps one heap of all events outside of members: deliveries, faults, workload.

The node (`node`), the writer and the state machine (`checked_machine`) report to the checkers. A crash takes everything
from a server (`server`) at one instant, and only then cancels its tasks. `members`, `store`, `controller` and `brokers`
are the clusters that a script can choose, and `world` is the interface that the commands use.
"""
