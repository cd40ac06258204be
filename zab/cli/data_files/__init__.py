"""Data directories and snapshot files: what `zab log`, `snapshot`, `import` and `export` read and write."""
