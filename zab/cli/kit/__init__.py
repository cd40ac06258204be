"""What all commands share: error presentation, log options, signals, tables, and the generated reference page.

The commands of the controller and of the broker stand on it as well.
"""
