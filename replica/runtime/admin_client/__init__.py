"""Queries and changes of administrators, made of requests to brokers."""
