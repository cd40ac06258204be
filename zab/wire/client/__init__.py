"""Encode and decode ZooKeeper's client protocol, for our server and for our client. Without I/O, like all of `wire`."""
