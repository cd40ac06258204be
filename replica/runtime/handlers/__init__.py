"""Request handlers. Each module handles one family of requests and returns a table of handlers by API key."""
