"""ZooKeeper's client protocol: both ends of it, for our server and for our client. Pure, like all of wire."""
