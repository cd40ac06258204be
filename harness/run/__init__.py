"""Run scripts: one, many in several processes, or the same one in several worlds.

`worlds` finds the world of a script. `plan` defines the scripts of a campaign, and `runner` runs them. `replay_line`
writes the command that repeats a run, and `regressions` keeps failing scripts for tests. `crash_points` crashes at each
call to a disk, and `comparison` runs one script in all worlds.
"""
