"""Stored campaigns: run many seeds, store a row for each, analyse the rows, and write a report.

Nothing outside of this package imports pyspark. The modules that run seeds and store rows (`schema`, `layout`, `rows`,
`chunk`, `campaign`) do not need it either.
"""
