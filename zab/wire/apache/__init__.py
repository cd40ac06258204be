"""The protocol between the servers of Apache ZooKeeper 3.9: bytes to our messages and back, without I/O."""
