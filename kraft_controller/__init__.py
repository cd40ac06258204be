"""NOT USABLE YET. A Kafka-style controller that keeps its metadata in a coordination store, in Kafka's own layout.

What is there: the rules of a controller as pure functions (`core`), and its nodes (`wire`). What is not is the rest.
It exports nothing, and nothing may be built on it.
"""
