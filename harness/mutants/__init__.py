"""Known bugs that are planted to test the checkers: a checker must detect them.

`edit` plants a bug. `bugs` has the text of all bugs, and `table` reads it. `hunt` searches for a run in which a checker
detects a bug, and `detection_latency` compares how early checkers do so.
"""
