"""The language of fault scripts: what it can say, how it is stored, and how a person reads and writes it."""
