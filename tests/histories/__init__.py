"""Histories whose verdict is known beforehand: what the checkers themselves are checked against."""
