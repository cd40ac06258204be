"""Administration of groups and transactions through requests to brokers."""
