"""The console's markup: every value from the cluster is escaped and bounded, and charts have axes."""

from __future__ import annotations

import json
import re
from http import HTTPStatus

import pytest

from zab.admin.markup import NONE, number
from zab.console.admin_reports import admin_url
from zab.console.byte_views import JSON_CHARS_MAX, SHOWN_BYTES_MAX, as_hex, as_json, as_text, data_view, form_of
from zab.console.charts import chart, tick_step
from zab.console.console_site import local
from zab.console.layout import NAME_CHARS_MAX, framed, link, moment, page_of, problems, shown
from zab.console.page import Page, Refusal, Visit, url
from zab.core.errors import ConfigError

HOSTILE = "<script>alert('x')</script>"


def test_names_are_escaped_cut_and_printable() -> None:
    assert shown(HOSTILE) == "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;"
    assert shown("a\u202eb\x00c\ud800") == "a\\u202eb\\x00c\\ud800"
    assert len(shown("x" * 10_000)) == NAME_CHARS_MAX + 1
    assert HOSTILE not in link(HOSTILE, "/node", path=f'/"{HOSTILE}')
    assert '"/node?path=%2F%22' in link("a", "/node", path='/"')


def test_whole_page_escapes_its_title_and_survives_lone_surrogates() -> None:
    reply = framed(Page(f"\ud800{HOSTILE}", problems([HOSTILE])), [("A", "/a")], "/a", "", "")
    assert HOSTILE.encode() not in reply.body
    assert b'<a href="/a" aria-current=page>' in reply.body
    policy = dict(reply.headers)["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize(
    ("data", "form"),
    [
        (b"plain", "text"),
        (b"42", "text"),
        (b'{"a": [1]}', "json"),
        (b"\xff\x00", "hex"),
        ("espace\u00a0ins\u00e9cable \U0001f469\u200d\U0001f4bb".encode(), "text"),
        (b"\x1b[31mred", "hex"),
        (b"[" * 60_000, "text"),
        (b"[" + b"9" * 5_000 + b"]", "text"),
    ],
)
def test_data_is_shown_in_the_most_readable_form(data: bytes, form: str) -> None:
    assert form_of(data, None) == form
    assert form_of(data, "hex") == "hex"
    assert form_of(data, "nonsense") == form


def test_json_that_indentation_makes_too_long_is_shown_as_text() -> None:
    depth = 200
    data = b"[" * depth + b",".join([b"1"] * 15_000) + b"]" * depth
    assert len(data) < SHOWN_BYTES_MAX
    assert len(json.dumps(json.loads(data), indent=2)) > JSON_CHARS_MAX
    assert as_json(data) is None
    assert form_of(data, "json") == "text"


def test_large_data_is_refused_with_its_length() -> None:
    shown_data = data_view(Visit("/node"), "as", b"x" * 1_000_000)
    assert f"{number(1_000_000)} bytes" in shown_data
    assert len(shown_data) < 300
    assert "<pre" in data_view(Visit("/node"), "as", b"x" * SHOWN_BYTES_MAX)


def test_data_is_escaped_in_each_form() -> None:
    for form in ("text", "json", "hex"):
        data = json.dumps({"a": HOSTILE}).encode()
        assert HOSTILE not in data_view(Visit("/node", {"as": form}), "as", data)
    assert as_hex(b"<b>\x00") == "00000000  3c 62 3e 00" + " " * 36 + "  <b>."
    assert as_text(b"\xff") is None


def test_chart_has_axes_with_units_and_a_title_for_each_point() -> None:
    points = [(1_000 * second, value) for second, value in enumerate((0, 7, 23))]
    drawn = chart("Commits", "per second", points, number)
    assert re.findall(r"<title>(.*?)</title>", drawn) == [
        "00:00:00 UTC: 0 per second",
        "00:00:01 UTC: 7 per second",
        "00:00:02 UTC: 23 per second",
    ]
    assert re.findall(r'text-anchor="end">([\d ]+)</text>', drawn) == ["0", "10", "20", "30"]
    assert "00:00:01 UTC</text>" in drawn
    assert 'role="img" aria-label="Commits, per second: newest 23, maximum 23"' in drawn
    assert "style=" not in drawn
    assert "no values yet" in chart("Commits", "per second", [], number)
    assert "NaN" not in chart("Commits", "per second", [(5, 0)], number)


@pytest.mark.parametrize(("most", "step"), [(0, 1), (1, 1), (4, 1), (5, 2), (23, 10), (100, 50), (99_999, 50_000)])
def test_ticks_are_round(most: float, step: float) -> None:
    assert tick_step(most) == step


def test_times_that_no_calendar_has_are_numbers() -> None:
    assert moment(0) == "1970-01-01 00:00:00 UTC"
    assert moment(-1) == NONE
    assert moment(1 << 80) == f"{1 << 80} ms after 1970"


def test_lists_are_shown_page_by_page() -> None:
    part, links = page_of(Visit("/topics", {"page": "2", "filter": "a&b"}), 450, 200)
    assert part == slice(400, 450)
    assert "401 to 450 of 450" in links
    assert 'href="/topics?page=1&amp;filter=a%26b">previous' in links
    assert "<s>next</s>" in links
    assert page_of(Visit("/topics", {"page": "99"}), 450, 200)[0] == slice(400, 450)
    assert page_of(Visit("/topics"), 0, 200) == (slice(0, 200), "")


@pytest.mark.parametrize("text", ["-1", "x", "1e9", "\u0661", "9" * 30, "201"])
def test_numbers_out_of_range_are_refused(text: str) -> None:
    with pytest.raises(Refusal, match="count must be a number from 0 to 200") as refused:
        Visit("/records", {"count": text}).number("count", 50, 0, 200)
    assert refused.value.status is HTTPStatus.BAD_REQUEST
    assert Visit("/records", {"count": " "}).number("count", 50) == 50


@pytest.mark.parametrize(
    "target", ["//evil.example", "https://evil.example", "/\\evil.example", "/a\r\nSet-Cookie: a=b", "/a b", "", "/ä"]
)
def test_login_leads_to_no_other_site(target: str) -> None:
    assert local(target) == "/"
    assert local("/node?path=%2Fa") == "/node?path=%2Fa"
    assert url("/node", path="/ä\ud800", page=None) == "/node?path=%2F%C3%A4%3F"


@pytest.mark.parametrize("text", ["https://a:1", "http://a/b", "ftp://a", "http://:80", "http://a:x", "http://a:99999"])
def test_wrong_address_of_an_admin_port_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="admin port|URL like"):
        admin_url(text)
    assert str(admin_url("[::1]")) == "http://[::1]:8080/"
    assert str(admin_url("http://db1:9/")) == "http://db1:9/"
