"""TLS: keys and certificates from files of several formats, streams, and the reasons of failed handshakes."""
