"""The broker at work: connections, requests, replicas, fetchers, and its session with the store. Acts."""
