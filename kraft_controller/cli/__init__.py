"""What people ask of a cluster: commands of `zab-broker` that work at the coordination store."""
