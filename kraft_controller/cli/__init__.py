"""Commands of `zab-broker` that work on the coordination store."""
