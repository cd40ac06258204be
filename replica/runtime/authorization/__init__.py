"""Authorization of requests: the guard before each handler passes on only the permitted parts of a request."""
