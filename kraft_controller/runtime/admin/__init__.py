"""What people and their tools do to a cluster, through the nodes of the store: the controller watches, and acts."""
