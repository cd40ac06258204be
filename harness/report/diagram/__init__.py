"""A run as a space-time diagram: servers are lines, messages are arrows, faults are shaded.

`read` converts the acts of a traced run to a picture. `slice` finds the causes of the verdict. `page` writes both into
one self-contained HTML file.
"""

from harness.report.diagram.page import page
from harness.report.diagram.read import read

__all__ = ["page", "read"]
