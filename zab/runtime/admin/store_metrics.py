"""The metrics as samples for Prometheus, as the values of `monitor` and `mntr`, and as a table for the docs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from zab.admin.exposition import MetricSample
from zab.admin.summary import QUANTILES, Summary
from zab.core.messages import State
from zab.runtime.admin.metrics_table import METRICS, Metric, Observation, Value
from zab.runtime.admin.report import VERSION

if TYPE_CHECKING:
    from zab.runtime.store_server.server_runtime import ServerRuntime

_SHARES: Final = (0.5, 0.9, 0.99)


def store_samples(server: ServerRuntime) -> Iterator[MetricSample]:
    """Yield the metrics for Prometheus. All values are of the same moment."""
    seen = Observation(server)
    for metric in METRICS:
        value = metric.value(seen)
        if value is not None:
            yield from _samples(metric, value)


def _samples(metric: Metric, value: Value) -> Iterator[MetricSample]:
    name, kind, about = metric.name, metric.kind, metric.help
    if isinstance(value, Summary):
        for share, found in zip(_SHARES, value.quantiles(_SHARES), strict=True):
            yield MetricSample(name, kind, about, found, {"quantile": str(share)})
        yield MetricSample(name, kind, about, value.total, suffix="_sum")
        yield MetricSample(name, kind, about, value.count, suffix="_count")
    elif isinstance(value, Mapping):
        yield MetricSample(name, kind, about, None)
        for sid, found in value.items():
            yield MetricSample(name, kind, about, found, {"server": str(sid)})
    elif value is not None:
        yield MetricSample(name, kind, about, value)


def monitor(server: ServerRuntime) -> dict[str, object]:
    """Return the version, the state and the metrics as flat keys and values, like ZooKeeper's `monitor` and `mntr`."""
    seen = Observation(server)
    values: dict[str, object] = {"version": VERSION, "server_state": server.mode}
    if len(seen.status.ensemble.servers) > 1:
        values["peer_state"] = (
            f"{_STATES[seen.status.role.state]} - {'broadcast' if seen.status.role.serving else 'election'}"
        )
    if server.member.zookeeper is not None:
        values["peer_protocol"] = "zookeeper"
    for metric in METRICS:
        value = metric.value(seen)
        if isinstance(value, Summary):
            values |= _flat(metric.name, value, metric.spread)
        elif isinstance(value, Mapping):
            values |= {f"{metric.name}_{sid}": found for sid, found in value.items()}
        elif value is not None:
            values[metric.name] = value
    return values


def _flat(name: str, value: Summary, spread: bool) -> dict[str, object]:
    flat: dict[str, object] = {
        f"avg_{name}": round(value.mean, 4),
        f"min_{name}": round(value.least, 3),
        f"max_{name}": round(value.most, 3),
        f"cnt_{name}": value.count,
        f"sum_{name}": round(value.total, 3),
    }
    for share, found in zip(QUANTILES, value.quantiles(), strict=True) if spread else ():
        flat[f"p{str(share)[2:].ljust(2, '0')}_{name}"] = round(found, 3)
    return flat


_STATES: Final = {
    State.LOOKING: "looking",
    State.LEADING: "leading",
    State.FOLLOWING: "following",
    State.OBSERVING: "observing",
}


def table() -> str:
    """Return the table of metrics for the docs."""
    rows = [f"| `{metric.name}` | {metric.kind} | {metric.help} |" for metric in METRICS]
    return "\n".join(["| Name | Kind | What it says |", "|---|---|---|", *rows])
