"""The reason of a failed connection, as text for a person."""

from __future__ import annotations

import os
import ssl


def dial_reason(error: BaseException) -> str:
    """Return the text of an error.

    For an error of the operating system it is the system's text only, without the error number and without the address
    that Trio adds.
    """
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and error.strerror:
        return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
    return str(error)
