"""Java's login configuration (JAAS), as operators of ZooKeeper use it: names and passwords for DIGEST-MD5.

Syntax errors name a line and never quote it: if a quotation mark is missing, a password may stand where a name belongs.

Server {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_super="adminsecret"
    user_bob="bobsecret";
};
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from zab.core.errors import ConfigError

SERVER: Final = "Server"
"""The section that ZooKeeper's servers read by default."""

QUORUM_SERVER: Final = "QuorumServer"
"""The section with the users that may log in at the ports between servers."""
QUORUM_LEARNER: Final = "QuorumLearner"
"""The section with the user and the password with which a server logs in at other servers."""

_USER: Final = "user_"
_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
_TOKEN: Final = re.compile(
    r"""
    (?P<space> \s+ | //[^\n]* | \#[^\n]* | /\*.*?\*/ )
    | "(?P<quoted> (?:[^"\\\n]|\\.)* )"
    | (?P<mark> [{};=] )
    | (?P<word> (?: (?! // | /\* ) [^\s{};="#] )+ )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_CONTROLS: Final = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}


def digest_users(text: str, section: str = SERVER, source: str = "the login configuration") -> dict[str, str]:
    """Return the passwords for DIGEST-MD5 by user, from a section of the text. `source` names the file in errors.

    Raise `ConfigError` if the syntax is wrong, or if the section is missing, has another login module or no user.
    """
    users: dict[str, str] = {}
    for options in _digest_options(text, section, source):
        users |= {name.removeprefix(_USER): value for name, value in options.items() if name.startswith(_USER)}
    if not users:
        raise ConfigError(f'{source}, section {section!r}: no user may log in: there is no user_NAME="PASSWORD"')
    return users


def digest_login(text: str, section: str, source: str) -> tuple[str, str]:
    """Return the user and the password with which a client logs in by DIGEST-MD5, from a section of the text.

    Raise `ConfigError` if the syntax is wrong, or if the section is missing, has another login module or no user.
    """
    for options in _digest_options(text, section, source):
        if "username" in options and "password" in options:
            return options["username"], options["password"]
    raise ConfigError(f'{source}, section {section!r}: no username="NAME" and password="PASSWORD"')


def _digest_options(text: str, section: str, source: str) -> list[Mapping[str, str]]:
    """Return the options of each login module of a section."""
    sections = parse_jaas(text, source)
    if section not in sections:
        raise ConfigError(f"{source} has no section {section!r}; it has {', '.join(sections) or 'none at all'}")
    for module, _ in sections[section]:
        if not module.endswith("DigestLoginModule"):
            kept = "only DigestLoginModule is supported, Kerberos is not"
            raise ConfigError(f"{source}, section {section!r}: login module {module}: {kept}")
    return [options for _, options in sections[section]]


def parse_jaas(text: str, source: str) -> dict[str, list[tuple[str, Mapping[str, str]]]]:
    """Return all sections: for each its login modules with their options. Raise `ConfigError` for wrong syntax."""
    reader = _JaasReader(text, source)
    sections: dict[str, list[tuple[str, Mapping[str, str]]]] = {}
    while not reader.at_end:
        name = reader.word("the name of a section")
        if name in sections:
            raise reader.wrong("there are two sections of this name")
        reader.mark("{")
        modules = sections[name] = []
        while not reader.has("}"):
            module, flag = reader.word("a login module"), reader.word("required")
            if flag.lower() not in _FLAGS:
                raise reader.wrong("required, requisite, sufficient or optional is missing after the login module")
            options: dict[str, str] = {}
            while not reader.has(";"):
                option = reader.word("an option")
                reader.mark("=")
                options[option] = reader.word("the value of an option")
                if "${" in options[option]:
                    raise reader.wrong("a value refers to a Java property, which is not supported here")
            modules.append((module, options))
        reader.mark(";")
    return sections


class _JaasReader:
    """Reads the tokens of a text one after the other. Its errors have the number of a line."""

    def __init__(self, text: str, source: str) -> None:
        self._source = source
        self._tokens: list[tuple[str, bool, int]] = []
        """For each token: the text, whether it is a mark, and the number of its line."""
        self._at = 0
        at, line = 0, 1
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise ConfigError(
                    f"{source}, line {line}: a quotation mark is not closed, or a character is not allowed"
                )
            if match["quoted"] is not None:
                word = _ESCAPED.sub(lambda found: _CONTROLS.get(found[1], found[1]), match["quoted"])
                self._tokens.append((word, False, line))
            elif match["mark"]:
                self._tokens.append((match["mark"], True, line))
            elif match["word"]:
                self._tokens.append((match["word"], False, line))
            line += match[0].count("\n")
            at = match.end()
        self._last = line

    @property
    def at_end(self) -> bool:
        return self._at == len(self._tokens)

    def wrong(self, what: str) -> ConfigError:
        """Return an error in the token that was read last."""
        return self._error(self._tokens[self._at - 1][2], what)

    def _missing(self, what: str) -> ConfigError:
        """Return an error at the next token, or at the end of the text."""
        return self._error(self._last if self.at_end else self._tokens[self._at][2], f"{what} is missing")

    def _error(self, line: int, what: str) -> ConfigError:
        return ConfigError(f"{self._source}, line {line}: {what}")

    def has(self, mark: str) -> bool:
        if not self.at_end and self._tokens[self._at][:2] == (mark, True):
            self._at += 1
            return True
        return False

    def mark(self, mark: str) -> None:
        if not self.has(mark):
            raise self._missing(repr(mark))

    def word(self, what: str) -> str:
        if self.at_end or self._tokens[self._at][1]:
            raise self._missing(what)
        self._at += 1
        return self._tokens[self._at - 1][0]
