"""ZAB as a specification that runs: what servers may do, and under which conditions.

`harness.checkers.refinement` runs it beside real servers and holds every one of their steps against it.
"""
