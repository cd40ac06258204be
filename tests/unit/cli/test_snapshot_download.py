"""Arguments of a download of a snapshot that cannot be right are named before anything is sent."""

from __future__ import annotations

import pytest

from zab.cli.data_files.snapshot_download import streamed
from zab.core.errors import ConfigError


@pytest.mark.parametrize("url", ["http://", "http://host:99999", "http://host:abc", "http://[::1"])
def test_wrong_url_is_named(url: str) -> None:
    with pytest.raises(ConfigError, match=r"expected the URL of an admin port") as raised:
        next(streamed(url, None))
    assert str(raised.value).startswith(url)


@pytest.mark.parametrize(
    ("auth", "why"), [("digest", "SCHEME:CREDENTIALS"), (":a", "SCHEME:CREDENTIALS"), ("digest:a:b\n", "line break")]
)
def test_wrong_credentials_are_refused(auth: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        next(streamed("http://127.0.0.1:1", auth))
