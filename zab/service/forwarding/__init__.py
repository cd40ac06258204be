"""The way of requests to the leader and back: forwarding, intake, proposals, barriers."""
