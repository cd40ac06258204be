"""NOT THERE YET. The place of a Kafka-style controller that will keep its metadata in an ensemble of `zab`.

The package exists today so that the contracts between packages hold from the first line written in it.
It exports nothing, and nothing may be built on it.
"""
