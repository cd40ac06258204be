from __future__ import annotations

from zab.admin.markup import WARNINGS_MAX, status_page


def test_status_page_shows_health_warnings_and_links() -> None:
    reply = status_page("a & b", "down", "Nobody leads", ["one", "two"], "See more", {"metrics": "/numbers"})
    page = reply.body.decode()
    assert "Not serving" in page
    assert "<title>■ a &amp; b</title>" in page
    assert "<li>one</li><li>two</li>" in page
    assert '<a href="/numbers">metrics</a>' in page


def test_policy_of_the_status_page_permits_no_script_and_no_style() -> None:
    reply = status_page("a", "healthy", "", [], "", {})
    policy = dict(reply.headers)["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    assert not [word for word in ("script", "style", "unsafe", "connect") if word in policy]
    assert "<script" not in reply.body.decode()


def test_status_page_bounds_the_warnings() -> None:
    page = status_page("a", "degraded", "", ["w"] * (WARNINGS_MAX + 3), "", {}).body.decode()
    assert page.count("<li>") == WARNINGS_MAX
    assert "and 3 more" in page
