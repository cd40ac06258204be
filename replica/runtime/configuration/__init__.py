"""The settings of a broker: its file, and what administrators change while it runs."""
