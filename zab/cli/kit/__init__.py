"""The parts that all commands share: errors, log options, signals, tables, and the generated reference page.

The commands of the controller and of the broker use this package as well.
"""
