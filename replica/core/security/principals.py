"""The principal of a client certificate: `ssl.principal.mapping.rules` applied to its subject.

    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, DEFAULT

The first rule whose pattern matches the whole subject determines the name; `/L` and `/U` change it to lower or upper
case. DEFAULT keeps the subject. If no rule matches, or the subject is too long for patterns, the connection is closed.
"""

from __future__ import annotations

import re
from typing import Final

from attrs import frozen

_RULES: Final = re.compile(r"\s*(DEFAULT|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)")
_REFERENCE: Final = re.compile(r"\\(.)|\$(\d)")
_BEGIN: Final = "User:"
SUBJECT_CHARS_MAX: Final = 1_024
"""The maximum length, in characters, of a subject to which patterns are applied: matching may take quadratic time or
more."""


class BadRules(ValueError):
    """Invalid rules. The message quotes the invalid part."""


class NoPrincipal(Exception):
    """The peer of a connection has no accepted principal: for example, no rule matches the subject of its certificate.
    The connection is closed."""


@frozen
class Rule:
    pattern: re.Pattern[str] | None
    """The compiled pattern; None for the rule DEFAULT."""
    replacement: str = ""
    letters: str = ""

    def of(self, subject: str) -> str | None:
        if self.pattern is None:
            return subject
        if self.pattern.fullmatch(subject) is None:
            return None
        name = self.pattern.sub(lambda match: _filled(self.replacement, match), subject)
        return name.lower() if self.letters == "L" else name.upper() if self.letters == "U" else name


def _filled(replacement: str, match: re.Match[str]) -> str:
    def one(part: re.Match[str]) -> str:
        return part[1] if part[1] is not None else match[int(part[2])] or ""

    return _REFERENCE.sub(one, replacement)


@frozen
class Principals:
    rules: tuple[Rule, ...] = (Rule(None),)

    def of_subject(self, subject: str) -> str:
        if len(subject) > SUBJECT_CHARS_MAX and any(rule.pattern is not None for rule in self.rules):
            raise NoPrincipal(
                f"the subject has {len(subject)} characters; "
                f"the limit for ssl.principal.mapping.rules is {SUBJECT_CHARS_MAX}"
            )
        for rule in self.rules:
            name = rule.of(subject)
            if name is not None:
                return _BEGIN + name
        raise NoPrincipal(f"no rule of ssl.principal.mapping.rules matches the subject {subject}")


def read_rules(text: str) -> Principals:
    rules, at = [], 0
    while at < len(text):
        found = _RULES.match(text, at)
        if found is None or found.end() == at:
            raise BadRules(
                f"{text[at:]!r} is not a rule: use DEFAULT, or RULE:pattern/replacement/ followed by L, U or nothing"
            )
        rules.append(Rule(None) if found[1] == "DEFAULT" else _rule(found[2], found[3], found[4]))
        at = found.end()
    return Principals(tuple(rules)) if rules else Principals()


def _rule(pattern: str, replacement: str, letters: str) -> Rule:
    try:
        compiled = re.compile(pattern.replace("\\/", "/"))
    except re.error as error:
        raise BadRules(f"RULE:{pattern}: {error}") from None
    for number in (int(found[2]) for found in _REFERENCE.finditer(replacement) if found[2]):
        if number > compiled.groups:
            raise BadRules(f"RULE:{pattern}/{replacement}/: the pattern has no group {number}")
    return Rule(compiled, replacement, letters)
