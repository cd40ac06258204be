"""The state of a member and of its ensemble, as clients and operators see it."""
