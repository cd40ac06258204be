"""The reference page of a configuration file, written from its table of keys."""

from __future__ import annotations

from zab.config.key_table import ConfigKey, KeyTable


def key_page(head: str, table: KeyTable) -> str:
    """Return the page: `head`, for each section the keys with an effect and those without, and the families."""
    parts = [head]
    for title, keys in table.sections:
        parts.append(f"\n## {title}\n")
        for ignored, columns in (
            (False, "| Key | Default | What it does |"),
            (True, "| Without effect | Default | Why |"),
        ):
            rows = [_row(key) for key in keys if key.ignored is ignored]
            if rows:
                parts += [f"\n{columns}\n|---|---|---|\n", *rows]
    if table.families:
        parts.append("\n## Keys with a number or a name in them\n\n| Key | What it does |\n|---|---|\n")
        for family in table.families:
            does = f"without effect: {family.does}" if family.ignored else family.does
            parts.append(f"| `{family.shown}` | {_cell(does)} |\n")
    return "".join(parts)


def _row(key: ConfigKey) -> str:
    return f"| `{key.name}` | {_cell(key.default) or '-'} | {_cell(key.does)} |\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
