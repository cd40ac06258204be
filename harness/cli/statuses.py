"""The exit statuses of the commands."""

VALID, INVALID, MISUSED = 0, 1, 2
