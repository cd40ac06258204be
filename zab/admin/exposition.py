"""Metrics in the text format 0.0.4 of Prometheus, written by `prometheus_client`.

The values are collected for each request, with a registry of its own. The global registry of the process belongs to the
application, so nothing is registered there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from attrs import field, frozen

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
GAUGE, COUNTER, SUMMARY = "gauge", "counter", "summary"
_TOTAL: Final = "_total"


@frozen
class MetricSample:
    """One value of the metric `name`. In a summary, `suffix` is `_sum` for the sum and `_count` for the count.

    A `value` of None adds no value, but makes the metric appear with its description and type.

    kind    the type: counter, gauge or summary
    about   the description
    labels  the labels of the value, by name
    """

    name: str
    kind: str
    about: str
    value: float | None
    labels: Mapping[str, str] = field(factory=dict)
    suffix: str = ""


class _Collector:
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return iter(self._families)


def exposition(samples: Iterable[MetricSample]) -> bytes:
    """Return the text with the samples, grouped by metric.

    `prometheus_client` appends `_total` to the name of each counter. ZooKeeper's counters lack this suffix.
    They are passed as gauges, and their TYPE lines are corrected afterwards.
    """
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import generate_latest
    from prometheus_client.metrics_core import Metric

    families: dict[str, Metric] = {}
    corrected: list[str] = []
    for sample in samples:
        name, kind = sample.name, sample.kind
        family = families.get(name)
        if family is None:
            plain_counter = kind == COUNTER and not name.endswith(_TOTAL)
            if plain_counter:
                corrected.append(name)
            shown = name.removesuffix(_TOTAL) if kind == COUNTER else name
            family = families[name] = Metric(shown, sample.about, GAUGE if plain_counter else kind)
        if sample.value is not None:
            family.add_sample(name + sample.suffix, dict(sample.labels), float(sample.value))
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(list(families.values())))
    text = generate_latest(registry)
    for name in corrected:
        text = text.replace(f"# TYPE {name} {GAUGE}\n".encode(), f"# TYPE {name} {COUNTER}\n".encode(), 1)
    return text
