"""A Kafka broker: partitions replicated between brokers, consumer groups, and the protocol that Kafka's clients speak.

Led by `kraft_controller`, on the store that `zab` is. What people use is the command `zab-broker`: nothing is exported.
"""
