"""Remembers: everything a server must not forget, and how it finds it again after any crash."""
