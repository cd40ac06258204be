"""TLS: keys and certificates from files of several formats, streams, and what went wrong in words."""
