"""Whom a certificate is about, by Kafka's rules."""

from __future__ import annotations

import pytest

from replica.core.security.principals import SUBJECT_CHARS_MAX, BadRules, NoPrincipal, Rule, read_rules

ANN = "CN=Ann,OU=Users,O=Zoo,C=NL"


@pytest.mark.parametrize(
    ("rules", "principal"),
    [
        ("", f"User:{ANN}"),
        ("DEFAULT", f"User:{ANN}"),
        ("RULE:^CN=(.*?),.*$/$1/", "User:Ann"),
        ("RULE:^CN=(.*?),.*$/$1/L", "User:ann"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$2-$1/U, DEFAULT", "User:USERS-ANN"),
        ("RULE:^CN=Bob.*$/bob/,RULE:^.*O=Zoo.*$/zoo/ ,DEFAULT", "User:zoo"),
        ("RULE:^CN=Bob.*$/bob/,DEFAULT", f"User:{ANN}"),
        (r"RULE:^CN=(.*?),.*$/a\/$1/", "User:a/Ann"),
    ],
)
def test_the_first_rule_that_fits(rules: str, principal: str) -> None:
    assert read_rules(rules).of_subject(ANN) == principal


def test_principal_without_a_matching_rule_is_refused() -> None:
    with pytest.raises(NoPrincipal, match="matches the subject CN=Ann"):
        read_rules("RULE:^CN=Bob$/bob/").of_subject(ANN)


@pytest.mark.parametrize("rules", ["RULES", "RULE:x", "RULE:(/a/", "RULE:x/$1/", "DEFAULT DEFAULT", "RULE:x/y/Q"])
def test_rules_that_are_none(rules: str) -> None:
    with pytest.raises(BadRules):
        read_rules(rules)


def test_rules_meet_no_subject_beyond_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    matched: list[str] = []

    def of(rule: Rule, subject: str) -> str:
        matched.append(subject)
        return "ann"

    monkeypatch.setattr(Rule, "of", of)
    rules = read_rules("RULE:^CN=(.*?),.*$/$1/,DEFAULT")
    longest = "CN=" + "a" * (SUBJECT_CHARS_MAX - 3)
    assert rules.of_subject(longest) == "User:ann"
    with pytest.raises(NoPrincipal, match="1025 characters"):
        rules.of_subject(longest + "a")
    assert matched == [longest]


def test_a_long_subject_without_rules_is_the_principal() -> None:
    subject = "CN=" + "a" * SUBJECT_CHARS_MAX
    assert read_rules("").of_subject(subject) == f"User:{subject}"
