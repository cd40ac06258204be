"""NOT USABLE YET. A Kafka-style controller that keeps its metadata in a coordination store, in Kafka's own layout.

What is there: the rules as pure procedures (`core`), nodes and commands (`wire`), and a controller that is elected
and leads at a store (`runtime`). What is not: links to brokers, the command line, metrics, measurements. It exports
nothing, and nothing may be built on it.
"""
