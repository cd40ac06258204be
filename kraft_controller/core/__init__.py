"""What the controller decides: pure functions of a picture of the cluster, and the rules they follow."""
