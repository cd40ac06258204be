"""Dynamic configurations: their keys, alterations, credentials and throttles."""
