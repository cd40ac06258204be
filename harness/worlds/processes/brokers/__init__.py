"""Brokers as processes of their own, on a store of real servers: where the machine of a script is the partitions.

`machine`     what runs under `zab-broker serve` in each of these processes
`broker`      a process, its server.properties, and what it says of itself in its log
`wires`       a proxy for every way: from broker to broker, from controller to broker, from clients, to the store
`workload`    what a script asks of brokers, and does to them; the clients of `harness.worlds.brokers`
`members`     members of groups that are other people's clients, `member` the process of one
`healing`     what is waited for when all is healed
`world`       a run
"""
