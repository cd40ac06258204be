"""Known bugs, planted on purpose: a checker that does not notice them checks nothing.

`edit` plants a bug, `bugs` has their text and `table` reads it, `hunt` searches for a run in which a checker notices
one, and `detection_latency` compares how early checkers notice it.
"""
