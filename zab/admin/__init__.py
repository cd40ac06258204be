"""The admin port for operators: HTTP, its protections against browsers, page markup and metrics text.

The store and the brokers serve their own pages through it.
"""
