"""A client of ZooKeeper's protocol: the session API, over the network, to our servers or to Apache ZooKeeper."""
