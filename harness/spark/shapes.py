"""The shape of a message: the sentence without the values that differ from run to run, to compare failures."""

from __future__ import annotations

import re
from typing import Final

VALUE: Final = "#"
_PLACE: Final = re.compile(r"^(\w+) in ([\w<>]+) \((\w+)\.py:\d+\): ")
"""The beginning of a described exception. The shape keeps the function and its file."""
_INSIDE: Final = re.compile(r"\w*(\([^()\[\]{}]*\)|\[[^()\[\]{}]*\]|\{[^()\[\]{}]*\})")
_STEPS: Final = (
    (re.compile(r"""(?<!\w)b?(?P<q>['"])(?:\\.|(?!(?P=q)).)*(?P=q)"""), VALUE),  # quoted text
    (re.compile(r"(?:\b[a-z]+ )?(?<![\w/])/[\w./-]*"), VALUE),  # a path, with the word before it: data /a
    (re.compile(r"\b[\w.]*[A-Za-z][\w.]*-\d+\b"), VALUE),  # a partition: topic-0
    (re.compile(r"\b0x[0-9a-f]+\b|-?\b\d[\d.]*(/\d+)?\b"), VALUE),  # servers, zxids, offsets, times
    (re.compile(r"\b(nothing|none|None|True|False)\b"), VALUE),  # an empty list
    (re.compile(r"#(?:(?:,\s*|\s+and\s+|,\s+and\s+|\s+)#)+"), VALUE),  # a list
)


def shape(what: str) -> str:
    """Return the sentence without names, paths, numbers, lists and values."""
    text, before = _PLACE.sub(r"\1 in \2 of \3: ", what), None
    text = _STEPS[0][0].sub(_STEPS[0][1], text)
    while text != before:
        before, text = text, _INSIDE.sub(VALUE, text)
    for pattern, by in _STEPS[1:]:
        text = pattern.sub(by, text)
    return text
