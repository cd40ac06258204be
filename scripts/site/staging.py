"""Write the pages that the generator of the site reads: docs/, the pages at the root, and the API reference."""

from __future__ import annotations

import json
import posixpath
import re
import shutil
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from scripts.site.api_pages import FOLDER, api_pages
from scripts.site.cross_references import refer
from scripts.site.navigation import ROOT_PAGES, navigation

MERMAID: Final = "assets/mermaid.js"

_HERE: Final = Path(__file__).parent
_FENCE: Final = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"(\[[^\]]*\])\(([^)\s#]+)(#[^)\s]*)?\)")
_LEXERS: Final = {".py": "python", ".service": "ini", ".toml": "toml", ".yml": "yaml"}


def stage(root: Path, folder: Path) -> Path:
    """Write all pages and the configuration into an empty folder, and return the configuration's path."""
    shutil.rmtree(folder, ignore_errors=True)
    pages = folder / "pages"
    api, entries = api_pages(root)
    texts = {f"docs/{page.relative_to(root / 'docs')}": page.read_text() for page in (root / "docs").rglob("*.md")}
    texts |= {name: (root / name).read_text() for name in ROOT_PAGES}
    sources: set[str] = set()
    for original, text in texts.items():
        linked = _outside_fences(text, partial(relink, root, original, sources=sources))
        _write(pages / place(original), _outside_fences(linked, refer))
    for path, text in api.items():
        package = path.removeprefix(f"{FOLDER}/").partition("/")[0]
        _write(pages / path, _outside_fences(text, partial(refer, package=package)))
    for path in sources:
        _write(pages / place(path), _source_text(root, path))
    shutil.copytree(root / "docs" / "pictures", pages / "pictures")
    shutil.copytree(_HERE / "assets", pages / "assets")
    shutil.copy(_mermaid(), pages / MERMAID)
    configuration = folder / "mkdocs.yml"
    nav = navigation(root / "docs", entries)
    configuration.write_text(f"{(_HERE / 'mkdocs.yml').read_text()}\nnav: {json.dumps(nav)}\n")
    return configuration


def place(path: str) -> str:
    """Return the place on the site of a file in the repository."""
    if path in ROOT_PAGES:
        return ROOT_PAGES[path]
    if path.startswith("docs/") and path.endswith((".md", ".svg", ".png")):
        return path.removeprefix("docs/")
    return f"source/{path}.md"


def relink(root: Path, original: str, text: str, sources: set[str]) -> str:
    """Let the links of a page lead to the places on the site. Add to `sources` the other files that it links to."""

    def replace(match: re.Match[str]) -> str:
        name, target, anchor = match.groups()
        if re.match(r"\w+:", target):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(original), target))
        if not (root / path).exists():
            raise ValueError(f"{original}: {target}: no such file")
        if place(path).startswith("source/"):
            sources.add(path)
        return f"{name}({posixpath.relpath(place(path), posixpath.dirname(place(original)) or '.')}{anchor or ''})"

    return _LINK.sub(replace, text)


def _outside_fences(text: str, change: Callable[[str], str]) -> str:
    parts, last = [], 0
    for fence in _FENCE.finditer(text):
        parts += [change(text[last : fence.start()]), fence[0]]
        last = fence.end()
    return "".join([*parts, change(text[last:])])


def _source_text(root: Path, path: str) -> str:
    """Return a page with the text of a file, or with the names in a folder. The search skips it."""
    file = root / path
    text = "\n".join(sorted(each.name for each in file.iterdir())) if file.is_dir() else file.read_text()
    lexer = _LEXERS.get(file.suffix, "text")
    return f"---\nsearch: {{exclude: true}}\n---\n\n# {path}\n\n~~~~~~{lexer}\n{text}\n~~~~~~\n"


def _mermaid() -> Path:
    """Return the program that draws diagrams in the browser. The package around it is not imported."""
    spec = find_spec("mermaidx")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("the package mermaidx is not installed: run `make site`")
    return Path(spec.submodule_search_locations[0], "assets", "mermaid.js")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
