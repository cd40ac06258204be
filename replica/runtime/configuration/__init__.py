"""The settings of a broker: its file, and dynamic settings that administrators change while it runs."""
