"""Reports of a run: its picture, its summary, and the events that concern its verdict."""
