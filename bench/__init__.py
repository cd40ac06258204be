"""Measurements. Nothing here is part of the library, and nothing in the library imports it."""
