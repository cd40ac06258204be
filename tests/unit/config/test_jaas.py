"""Java's login configuration, well written and badly."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab.config.jaas import digest_users, parse_jaas
from zab.core.errors import ConfigError

USUAL = """
/* who
   may */
Client { com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/etc/zk.keytab"; };
Server {   // log in
    org.apache.zookeeper.server.auth.DigestLoginModule REQUIRED
    user_super="admin \\"secret\\""   # quoted
    user_bob=bobs/cret//really
    debug=true
    user_=x;
};
"Quoted Name" { a.DigestLoginModule optional user_q="1"; b.DigestLoginModule sufficient user_r="2"; };
Empty {};
"""


def test_the_users_of_a_section() -> None:
    assert digest_users(USUAL) == {"super": 'admin "secret"', "bob": "bobs/cret", "": "x"}
    assert digest_users(USUAL, "Quoted Name") == {"q": "1", "r": "2"}


@pytest.mark.parametrize(("text", "why"), [
    ("", "no section 'Server'; it has none at all"),
    ("Client { };", "no section 'Server'; it has Client"),
    ("Server { };", "no user may log in"),
    ("Server { a.Krb5LoginModule required; };", "login module a.Krb5LoginModule: only DigestLoginModule"),
    ("A { };\nA\n{ };", "line 2: there are two sections of this name"),
    ("Server {\n a.DigestLoginModule\n user_bob=1; };", "line 3: required, .* is missing after the login module"),
    ("Server { a.DigestLoginModule required user_bob; };", "'=' is missing"),
    ("Server { a.DigestLoginModule required user_bob=; };", "the value of an option is missing"),
    ("Server { a.DigestLoginModule required user_bob=1 }", "an option is missing"),
    ("Server { a.DigestLoginModule required user_bob=1; }", "';' is missing"),
    ("Server {\n a.DigestLoginModule required user_bob=\"1; };", "line 2: .* is not closed"),
    ("Server { a.DigestLoginModule required user_bob=1; }; Server {};", "there are two sections of this name"),
    ("Server { a.DigestLoginModule required user_bob=\"${password}\"; };", "a Java property"),
    ("Server", "'{' is missing"),
])  # fmt: skip
def test_errors_name_their_line(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f"jaas.conf.*{why}"):
        digest_users(text, source="jaas.conf")


@given(st.one_of(st.text(max_size=60), st.text('Sa_="\\{};#/* \n', max_size=60)))
def test_noise_is_nothing_but_a_config_error(noise: str) -> None:
    with suppress(ConfigError):
        parse_jaas(noise, "noise")
