"""The group coordinator: membership, partition assignments and committed offsets of consumer groups."""
