"""Bugs put back on purpose. A checker that cannot see them sees nothing."""
