"""Brokers as processes of their own, on a store of real servers: where the script replicates partitions.

`broker`    a process, its server.properties, and its log
`links`     a proxy for every link: between brokers, from clients, to the store
`fleet`     the brokers of a cluster, and connections to them
`nemesis`   the faults of brokers
`workload`  what a script asks of brokers; the clients of `harness.worlds.brokers`
`members`   members of groups that are clients from other projects; `member` is the process of one
`world`     a run, and its outcome
"""
