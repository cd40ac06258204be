"""The steps of an analysis. Each takes frames and gives frames, and knows nothing of the others."""
