"""Bytes from a node or a record as text, JSON or hexadecimal digits, within bounds."""

from __future__ import annotations

import json
import re
from html import escape
from typing import Final

from zab.admin.markup import number, size
from zab.console.page import Visit

SHOWN_BYTES_MAX: Final = 64 << 10
"""Larger data is not shown."""
JSON_CHARS_MAX: Final = 4 * SHOWN_BYTES_MAX
"""The maximum length of indented JSON: deep nesting makes it much longer than the data."""
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
FORMS: Final = ("text", "json", "hex")


def too_large(length: int) -> str | None:
    """Return the sentence in place of data of this length; None if it can be shown."""
    if length <= SHOWN_BYTES_MAX:
        return None
    return (
        f"This has {number(length)} bytes ({size(length)}). The console shows at most {size(SHOWN_BYTES_MAX)}; "
        "read it with a client."
    )


def data_view(visit: Visit, parameter: str, data: bytes | None) -> str:
    """Return the data as HTML, with links to its other forms: `parameter` of the page's address chooses the form."""
    if not data:
        return f"<p class=none>{'null' if data is None else 'empty'}</p>"
    refusal = too_large(len(data))
    if refusal is not None:
        return f"<p>{refusal}</p>"
    chosen = form_of(data, visit.parameters.get(parameter))
    links = " ".join(
        f'<a href="{escape(visit.url(**{parameter: form}))}"{" aria-current=true" if form == chosen else ""}>{form}</a>'
        for form in FORMS
        if form_of(data, form) == form
    )
    return f'<p class="forms">Show as {links}</p>{rendered(data, chosen)}'


def form_of(data: bytes, wanted: str | None) -> str:
    """Return the form to show the data in: the wanted one if it is possible, else the most readable one."""
    possible = [form for form in FORMS if form == "hex" or (as_text if form == "text" else as_json)(data) is not None]
    if wanted in possible:
        return wanted
    return "json" if "json" in possible and data[:1] in (b"{", b"[") else possible[0]


def rendered(data: bytes, form: str) -> str:
    """Return the data as HTML in this form, which `form_of` has chosen."""
    text = as_hex(data) if form == "hex" else as_json(data) if form == "json" else as_text(data)
    return f'<pre tabindex="0" aria-label="The data">{escape(text or "")}</pre>'


def as_text(data: bytes) -> str | None:
    """Return the text; None if the data is not UTF-8, or has control characters."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if _CONTROL.search(text) else text


def as_json(data: bytes) -> str | None:
    """Return indented JSON; None if the data is not JSON, or the result would be too long."""
    pieces, length = [], 0
    try:
        for piece in json.JSONEncoder(indent=2, ensure_ascii=True).iterencode(json.loads(data)):
            pieces.append(piece)
            length += len(piece)
            if length > JSON_CHARS_MAX:
                return None
    except (ValueError, RecursionError):
        return None
    return "".join(pieces)


def as_hex(data: bytes) -> str:
    lines = []
    for at in range(0, len(data), 16):
        part = data[at : at + 16]
        characters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{at:08x}  {part.hex(' '):<47}  {characters}")
    return "\n".join(lines)
