"""A Kafka-compatible broker: replicated partitions, consumer groups, transactions, and the protocol of Kafka's clients.

`kraft_controller` is its controller, and `zab` its metadata store. The command `zab-broker` runs a broker, and
`replica.testing` a cluster in memory for the tests of applications; the package itself exports nothing.
"""
