"""Exhaustive exploration of the consensus core within small bounds.

A global state is three servers, the links between them, and the judge. Each of these parts is deterministic, so each
distinct part is stored once and each distinct step of a part runs the real code once; see docs/exploration.md.
"""
