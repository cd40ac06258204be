"""NOT THERE YET. The place of a replica manager that will serve Kafka clients, led by `kraft_controller`.

The package exists today so that the contracts between packages hold from the first line written in it.
It exports nothing, and nothing may be built on it.
"""
