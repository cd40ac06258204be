"""Brokers as processes of their own on a store of real servers, for scripts of the machine `partitions`.

`broker`    a process, its server.properties, and its log
`links`     a proxy for every link: between brokers, from clients, to the store
`fleet`     the brokers of a cluster, and connections to them
`nemesis`   the faults of brokers
`workload`  the operations of a script on brokers, with the clients of `harness.worlds.brokers`
`members`   group members that use client libraries of other projects; `member` is the program of one
`world`     a run, and its outcome
"""
