"""The connections of clients: their requests in order, limits and quotas."""
