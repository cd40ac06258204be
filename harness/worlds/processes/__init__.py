"""The cluster of real servers: `zab serve` in processes of its own, real files, real signals, TCP on loopback.

Nothing here repeats itself to the last act: time is the machine's, and so is the order of things. What is exact
is the record: what clients asked and were told, and what the servers' logs hold at the end.

`server`    a process, its signals, its disk and its log; `configuration` its zoo.cfg
`machine`   what runs under `zab serve` in each of these processes: names, a disk that is slow or fails on request
`addresses` the addresses of servers; `proxy` a TCP proxy for every direction of every link, where partitions are made
`netns`     the same with network namespaces, if root may make them: the packets themselves are dropped
`clients`   sessions over ZooKeeper's protocol that record all they ask and are told
`cluster`   the servers and clients of a run: start, kill, ask, what is known of them
`nemesis`   the faults of a script; `workload` its operations
`run`       a run: start, play, heal, wait, read everything back, stop
`logs`      the committed history, read from the directories that the servers leave behind
`verdict`   the outcome; `uptime` when a quorum served, and how soon again after a fault
`world`     all this as the commands see it
"""
