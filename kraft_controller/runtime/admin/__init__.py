"""Administration of a cluster through the nodes of the store, which the controller watches."""
