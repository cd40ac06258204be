"""Configuration files: Java's properties with line numbers, tables of keys, converters of values, and reference pages.

`zab serve` reads zoo.cfg with these modules, and the broker reads server.properties with them.
"""
