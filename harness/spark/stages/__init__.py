"""The stages of an analysis. Each takes and returns frames, and is independent of the others."""
