"""Client connections: the order of their requests, limits and quotas."""
