"""The admin pages of a store: commands, metrics and a status page, over HTTP at a port of their own."""
