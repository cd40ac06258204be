"""Build the site of the documentation: `make site`.

`staging` writes plain pages and an `mkdocs.yml` into build/site, without hooks or templates: another generator that
reads these can replace MkDocs. `link_check` then reads the finished HTML, which depends on no generator either.
"""

from __future__ import annotations

import os
import posixpath
import subprocess
import sys
from pathlib import Path
from typing import Final

from scripts.site.link_check import broken_links
from scripts.site.staging import MERMAID, stage

ROOT: Final = Path(__file__).parents[2]
SITE: Final = ROOT / "site"


def draw_diagrams(site: Path) -> None:
    """Load the program that draws diagrams in the pages that have one."""
    for page in site.rglob("*.html"):
        text = page.read_text()
        if '<pre class="mermaid">' in text:
            script = posixpath.relpath(MERMAID, page.parent.relative_to(site).as_posix())
            page.write_text(text.replace("</head>", f'<script src="{script}"></script></head>'))


def main() -> int:
    configuration = stage(ROOT, ROOT / "build" / "site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--config-file", str(configuration)]
    if status := subprocess.run(command, cwd=ROOT, check=False).returncode:
        return status
    draw_diagrams(SITE)
    broken = broken_links(SITE)
    print("\n".join(broken) or f"the site is in {os.path.relpath(SITE)}: open {os.path.relpath(SITE / 'index.html')}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
