"""What an operator looks at: commands, metrics and a page, over HTTP, on a port of its own."""
