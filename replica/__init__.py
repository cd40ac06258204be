"""A Kafka-compatible broker: replicated partitions, consumer groups, transactions, and the protocol of Kafka's clients.

`kraft_controller` is its controller, and `zab` its metadata store. Use it through the command `zab-broker`: the package
exports nothing.
"""
