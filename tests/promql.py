"""What a query in PromQL refers to: metrics, labels, and the functions that are applied to each metric."""

from __future__ import annotations

import re
from typing import Final

from attrs import frozen

MATCHER: Final = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"[^"]*"')
NAME: Final = re.compile(r"[A-Za-z_:][\w:]*")
GROUPED: Final = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
WORDS: Final = frozenset({"and", "or", "unless", "bool", "offset"})
OF_SERIES: Final = frozenset({"rate", "irate", "increase", "deriv", "delta", "histogram_quantile"})
"""Functions whose argument must be of one kind of metric."""


@frozen
class Query:
    """The metrics of a query, each with the functions of OF_SERIES around it, and the names of all labels."""

    metrics: dict[str, frozenset[str]]
    labels: frozenset[str]


def parse(text: str) -> Query:
    labels = {label for block in re.findall(r"\{([^}]*)\}", text) for label in MATCHER.findall(block)}
    labels |= {label.strip() for group in GROUPED.findall(text) for label in group.split(",") if label.strip()}
    bare = re.sub(r"\[[^\]]*\]|\{[^}]*\}", "", GROUPED.sub("", text))
    metrics: dict[str, frozenset[str]] = {}
    opened: list[str] = []
    function = ""
    for token in re.findall(r"[A-Za-z_:][\w:]*|[()]|[^\s\w()]+|[\d.]+", bare):
        if token == "(":
            opened.append(function)
        elif token == ")":
            opened.pop()
        function = ""
        if NAME.fullmatch(token) and token not in WORDS:
            if re.search(rf"\b{token}\s*\(", bare):
                function = token
            else:
                metrics[token] = metrics.get(token, frozenset()) | OF_SERIES.intersection(opened)
    assert not opened, f"unbalanced parentheses: {text}"
    return Query(metrics, frozenset(labels))


def legend_labels(legend: str) -> frozenset[str]:
    return frozenset(re.findall(r"\{\{(\w+)\}\}", legend))
