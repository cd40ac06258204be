"""Histories with known verdicts, for the tests of the checkers."""
