"""Errors between a client and its servers."""

from __future__ import annotations

from zab.core.errors import ZabError, present_as


class Unreachable(ZabError):
    """No server could be reached, or none accepted this session. The message lists the attempts."""


present_as("zab", globals())
