"""The running broker: connections, requests, replicas, fetchers, and its session with the store."""
