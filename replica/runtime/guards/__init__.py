"""What somebody has to be allowed for each request: one guard before each handler, which sees only what is allowed."""
