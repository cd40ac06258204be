"""The status report of a server: each sends its own to the leader once a second, and the leader sends all of them on.

So each server can show all servers. Reports are sent outside of the history and are only displayed. No decision depends
on them, so a report may be old or missing.
"""

from __future__ import annotations

from typing import Any, Final

import msgpack
from attrs import asdict, fields, frozen

from zab.core.errors import WireError

MARK: Final = "-zab"
"""Follows the version of ZooKeeper in the version that a server of zab reports. The release of zab comes next."""
VERSION: Final = f"3.9.5{MARK}-1.0.0, built on 11/20/2026 00:00 UTC"
"""The version that the server reports. Tools derive from it which requests a server supports.

Some tools require a date after the version, as ZooKeeper wrote it until 3.5: `FLWSrvr` of go-zookeeper accepts no other
form.
"""
TEXT_CHARS_MAX: Final = 200
TEXTS_MAX: Final = 5
REPORT_BYTES_MAX: Final = 8 << 10
REPORTS_MAX: Final = 64


@frozen
class Report:
    """The state of one server.

    lag  the distance behind the leader in transactions; -1 if unknown: without a leader, or in another epoch. The
         leader computes it when the report arrives, because then both zxids are of nearly the same moment
    """

    server: int = 0
    version: str = ""
    mode: str = "looking"
    serving: bool = False
    voting: bool = True
    epoch: int = 0
    applied: int = 0
    committed: int = 0
    last: int = 0
    lag: int = -1
    connections: int = 0
    sessions: int = 0
    outstanding: int = 0
    requests_per_s: int = 0
    commits_per_s: int = 0
    latency_us: int = 0
    fsync_us: int = 0
    elections: int = 0
    uptime_ms: int = 0
    client_port: int = 0
    admin_port: int = 0
    warnings: tuple[str, ...] = ()


_KINDS: Final = {field.name: type(field.default) for field in fields(Report)}


def encode_report(report: Report) -> bytes:
    """Encode a report with at most `TEXTS_MAX` warnings, each cut after `TEXT_CHARS_MAX` characters."""
    values = asdict(report)
    values["warnings"] = [text[:TEXT_CHARS_MAX] for text in report.warnings[:TEXTS_MAX]]
    packed: bytes = msgpack.packb(values)
    return packed


def decode_report(data: bytes) -> Report:
    """Decode a report. Unknown fields of a newer version are dropped; missing fields have their defaults.

    Raise `WireError` if the data is not a report.
    """
    values = _unpack(data, REPORT_BYTES_MAX, dict)
    known: dict[str, Any] = {}
    for name, value in values.items():
        kind = _KINDS.get(name)
        if kind is None:
            continue
        if kind is tuple and type(value) is list and all(type(text) is str for text in value):
            value = tuple(text[:TEXT_CHARS_MAX] for text in value[:TEXTS_MAX])
        elif kind is str and type(value) is str:
            value = value[:TEXT_CHARS_MAX]
        elif type(value) is not kind:
            raise WireError(f"a report has the invalid value {value!r:.40} for {name}")
        known[name] = value
    return Report(**known)


def encode_reports(reports: list[tuple[int, Report]]) -> bytes:
    """Encode the first `REPORTS_MAX` reports with the age of each, in milliseconds."""
    packed: bytes = msgpack.packb([[age_ms, encode_report(report)] for age_ms, report in reports[:REPORTS_MAX]])
    return packed


def decode_reports(data: bytes) -> list[tuple[int, Report]]:
    rows = _unpack(data, REPORTS_MAX * (REPORT_BYTES_MAX + 20), list)
    found = []
    for row in rows:
        if type(row) is not list or len(row) != 2 or type(row[0]) is not int or type(row[1]) is not bytes:
            raise WireError("a row of reports must be an age and a report")
        found.append((row[0], decode_report(row[1])))
    return found


def _unpack(data: bytes, bytes_max: int, kind: type[Any]) -> Any:
    if len(data) > bytes_max:
        raise WireError(f"reports of {len(data)} bytes: at most {bytes_max} are allowed")
    try:
        value = msgpack.unpackb(data, max_array_len=REPORTS_MAX, max_map_len=100, max_ext_len=0)
    except Exception as error:
        raise WireError(f"a report cannot be decoded: {error!r:.200}") from error
    if type(value) is not kind:
        raise WireError(f"report data must be a {kind.__name__}, not {type(value).__name__}")
    return value
