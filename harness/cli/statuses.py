"""The exit statuses of the commands."""

HELD, VIOLATED, MISUSED = 0, 1, 2
