"""Sockets and the tasks that wait for them. The broker uses these modules as well."""
