"""Data directories and snapshot files, for `zab log`, `zab snapshot`, `zab import` and `zab export`."""
