"""What can go wrong between a client and its servers."""

from __future__ import annotations

from zab.core.errors import ZabError, present_as


class Unreachable(ZabError):
    """No server could be reached, or none that would serve this session. The message says what was tried."""


present_as("zab", globals())
