"""Access lists, as the model knows them, in the words of a history.

They are read here once more, so that a mistake of the store is not made again by who judges it. Of a list that the
words cannot say (`?`) nothing is known, and whatever was answered is right.
"""

from __future__ import annotations

from typing import Final

UNKNOWN: Final = "?"
ALL: Final = "rwcda"
REFUSALS: Final = ("NO_AUTH", "INVALID_ACL")
"""The answers that follow from lists."""


def _entries(words: str) -> list[tuple[str, str]]:
    found = []
    for entry in words.split(", "):
        who, _, letters = entry.partition(":")
        found.append((who, letters))
    return found


def resolved(words: str, user: str) -> str | None:
    """As it will stand on the node when this user hands it in. None: it makes no sense."""
    if not words or words == UNKNOWN:
        return words
    made = []
    for who, letters in dict.fromkeys(_entries(words)):
        if who == "auth":
            if not user:
                return None
            who = user
        made.append(f"{who}:{letters}")
    return "" if made == [f"world:{ALL}"] else ", ".join(made)


def granted(words: str, letters: str, user: str) -> bool:
    """Return whether the list allows one of these permissions to that user."""
    if not words or words == UNKNOWN:
        return True
    return any(
        who in ("world", user) and any(letter in letters for letter in granted) for who, granted in _entries(words)
    )
