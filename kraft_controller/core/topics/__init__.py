"""Topics, partitions and replicas: their phases, leaders, assignments and deletion."""
