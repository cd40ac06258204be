"""The pipeline: runs fanned out, their rows stored, added up, and shown.

Nothing else in this project adds runs up, and nothing outside of this package imports pyspark. Its modules that only
run seeds and store rows do without: `schema`, `layout`, `rows`, `chunk`, `pool`.
"""
