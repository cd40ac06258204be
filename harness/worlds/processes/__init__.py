"""The world of real servers: `zab serve` in processes of its own, real files, real signals, TCP on loopback.

Nothing here repeats itself to the last act: time is the machine's, and so is the order of things. What is exact
is the record: what clients asked and were told, and what the servers' logs hold at the end.

`server`    a process, its configuration, its signals, and what it says of itself in its log
`machine`   what runs under `zab serve` in each of these processes: names, a disk that is slow or fails on request
`proxy`     a TCP proxy for every direction of every link; partitions are made there
`netns`     the same with network namespaces, where root may make them: the packets themselves are dropped
`clients`   sessions over ZooKeeper's protocol that write down all they ask and are told
`nemesis`   the faults of a script, done to all these; `strikes_*` by what they strike
`logs`      the one committed history, read from the directories that the servers leave behind
`run`       a run: start, play, heal (`healing`: wait, read everything back), stop
`verdict`   what it adds up to; `uptime` when a quorum served, and how soon again after a fault
`world`     all this as the commands see it
"""
