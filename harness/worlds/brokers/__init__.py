"""Clients of brokers that record what they ask and are told, over the network of any world.

`recorder`      the history that `harness.checkers.records` judges
`requests`      the requests, one function each
`producer`, `consumer`, `transactions`  the clients
`workload`      all clients of a script, and what they write and read when all is healed
`verdict`       what their history adds to the outcome of a run
"""
