"""A run as a space-time diagram: servers are lines, words between them are arrows, faults are shaded.

`read` turns the acts of a traced run into what is drawn, `slice` finds what led to the verdict, `page` puts both into
one HTML file that needs nothing else.
"""

from harness.report.diagram.page import page
from harness.report.diagram.read import read

__all__ = ["page", "read"]
