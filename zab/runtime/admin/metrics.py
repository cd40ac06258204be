"""The measurements in the three forms in which they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from zab.core.messages import State
from zab.runtime.admin.instruments import METRICS, Look, Value
from zab.runtime.admin.summary import QUANTILES, Summary

if TYPE_CHECKING:
    from zab.runtime.coordination.server import StoreServer

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_SHARES: Final = (0.5, 0.9, 0.99)


def exposition(server: StoreServer) -> bytes:
    """In the text format 0.0.4 of Prometheus."""
    look = Look(server)
    lines: list[str] = []
    for metric in METRICS:
        value = metric.value(look)
        if value is None:
            continue
        lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
        lines += _samples(metric.name, value)
    return ("\n".join(lines) + "\n").encode()


def _samples(name: str, value: Value) -> Iterator[str]:
    if isinstance(value, Summary):
        for share, found in zip(_SHARES, value.quantiles(_SHARES), strict=True):
            yield f'{name}{{quantile="{share}"}} {found:.6g}'
        yield f"{name}_sum {value.total:.10g}"
        yield f"{name}_count {value.count}"
    elif isinstance(value, Mapping):
        for sid, found in value.items():
            yield f'{name}{{server="{sid}"}} {found}'
    else:
        yield f"{name} {value}"


def monitor(server: StoreServer) -> dict[str, object]:
    """As the original flattens it."""
    look = Look(server)
    values: dict[str, object] = {"version": server.version, "server_state": server.mode}
    if len(look.status.ensemble.servers) > 1:
        values["peer_state"] = (
            f"{_STATES[look.status.role.state]} - {'broadcast' if look.status.role.serving else 'election'}"
        )
    for metric in METRICS:
        value = metric.value(look)
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
    """For the docs."""
    rows = [f"| `{metric.name}` | {metric.kind} | {metric.help} |" for metric in METRICS]
    return "\n".join(["| Name | Kind | What it says |", "|---|---|---|", *rows])
