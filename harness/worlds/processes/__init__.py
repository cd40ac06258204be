"""The cluster of real servers: `zab serve` in processes of its own, real files, real signals, TCP on loopback.

Runs here are not repeatable: time and the order of events depend on the machine. The records are exact: the requests
and replies of clients, and the logs of the servers at the end.

`server`    a process, its signals, its disk and its log; `configuration` writes its zoo.cfg
`launcher`  starts the program of a process, with names of this run, and a disk that is slow or fails on request
`addresses` the addresses of servers; `proxy` a TCP proxy for every direction of every link, which makes partitions
`netns`     partitions by dropped packets instead, between network namespaces, which only root may make
`clients`   sessions over ZooKeeper's protocol that record their requests and replies
`cluster`   the servers and clients of a run: starts, kills, requests, and their observed state
`nemesis`   injects the faults of a script; `workload` performs its operations
`run`       a run: start, play the script, heal, wait, read everything back, stop
`logs`      the committed history, read from the data directories of the servers
`verdict`   the outcome; `uptime` the times at which a quorum served, and the recovery times after faults
`world`     the interface that the commands use
"""
