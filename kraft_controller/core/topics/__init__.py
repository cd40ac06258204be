"""Topics, their partitions and replicas: states, leaders, assignments, deletion."""
