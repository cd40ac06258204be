"""The admin port for operators: HTTP, protection against foreign web pages, page markup and metrics text.

The store and the brokers serve their own pages through it.
"""
