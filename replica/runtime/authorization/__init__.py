"""Authorization of requests: a guard in front of each handler passes on only the permitted parts of a request."""
