"""Controllers as they are shipped, in processes that die and stand still: over virtual streams, on virtual time."""
