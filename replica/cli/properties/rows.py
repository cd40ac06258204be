"""A row of the table of keys: what it is called, what becomes of it, and what its value may be."""

from __future__ import annotations

from attrs import frozen

from replica.cli.properties.values import Convert, of_topics


@frozen
class Key:
    name: str
    default: str
    does: str
    """Of one without effect: why it has none."""
    convert: Convert = str
    """Also of one without effect: what Kafka would not start with is a mistake here, too."""
    sets: str = ""
    """Empty: it is read by hand, or without effect."""
    ignored: bool = False
    agreed: tuple[str, ...] = ()
    """Values that say what happens anyway: not worth a warning."""

    @property
    def usual(self) -> str | None:
        """The default as a value, where there is one; what it is otherwise called is for people."""
        is_word = " " in self.default or (self.default in ("none", "required") and self.name != "ssl.client.auth")
        return None if is_word else self.default


def sets(name: str, default: str, setting: str, convert: Convert, does: str) -> Key:
    return Key(name, default, does, convert, setting)


def log(name: str, default: str, topic_key: str, does: str) -> Key:
    return Key(name, default, does, of_topics(name), f"log.{topic_key}")


def read(name: str, default: str, convert: Convert, does: str) -> Key:
    return Key(name, default, does, convert)


def ignored(name: str, default: str, why: str, *agreed: str, convert: Convert = str) -> Key:
    return Key(name, default, why, convert, ignored=True, agreed=(default, *agreed) if default else agreed)
