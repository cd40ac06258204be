"""Clients of brokers that record their requests and replies, over the network of any world.

`recorder`      the history that `harness.checkers.records` judges
`requests`      the requests, one function each
`producer`, `consumer`, `transactions`  the clients
`workload`      all clients of a script, and their last writes and reads after healing
`verdict`       the verdict on their history, added to the outcome of a run
"""
