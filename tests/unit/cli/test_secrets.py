"""No output of a configuration contains a secret, even if the key is duplicate, misspelt or invalid."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from kraft_controller.cli.kafka_configs import as_verbs
from kraft_controller.cli.topics_command import pair
from kraft_controller.core.configuration.config_keys import KEYS as CONFIGURED
from replica.cli import main as broker
from replica.cli.properties.keys import KEYS
from replica.cli.properties.plan import plan_of
from replica.runtime.configuration.config_layers import Layers, of_all_brokers, of_broker
from zab.cli.kit.failures import Misused
from zab.cli.root import zab
from zab.cli.zoo_cfg.dynamic_file import write_membership
from zab.cli.zoo_cfg.keys import TABLE
from zab.core.ensemble import Ensemble
from zab.core.secrets import is_secret
from zab.net.tls.tls_settings import TLS_KEYS

CANARY: Final = "canary"
"""Every secret begins with it, and every secret is another one."""

ZOO_SECRETS: Final = sorted(key for key in (*TABLE.keys, *TLS_KEYS) if is_secret(key))
LISTENER: Final = "listener.name.plaintext."
BROKER_SECRETS: Final = sorted([
    *(key for key in KEYS if is_secret(key)),
    "sasl.jaas.config", "ssl.keystore.key", "password.encoder.secret", "delegation.token.master.key",
    LISTENER + "ssl.keystore.password", LISTENER + "ssl.key.password", LISTENER + "plain.sasl.jaas.config",
    LISTENER + "scram-sha-512.sasl.jaas.config",
])  # fmt: skip

MISTAKES: Final = {
    "twice": "{key}=canary1:x\n{key}=canary2:x\n",
    "twice with the prefix": "{key}=canary1:x\nzookeeper.{key}=canary2:x\n",
    "without equals": "{key} canary1\n",
    "with a colon": "{key}:canary1\n",
    "of another form": "{key}=canary1\n",
    "with a space in the key": "x {key}=canary1\n",
    "misspelt": "{misspelt}=canary1\n{lower}=canary2\n{key}s=canary3\n",
    "with a wrong escape": "{key}=canary1\\ucana\n",
    "continued": "{key}=canary1\\\n  canary2\n",
    "continued without a mark": "{key}=canary1\ncanary2\ncanary3==\n",
    "beside an unknown key": "no.such.key=canary1\n{key}=canary2:x\n",
    "as a comment that was meant otherwise": "#{key}=canary1\n;{key}=canary2\n",
    "in an unknown section": "[{key}]\n{key}=canary1\n",
    "right": "{key}=canary1:x\n",
}

JAAS: Final = {
    "right": 'Server { a.DigestLoginModule required user_super="canary1"; };',
    "without the mark behind": 'Server { a.DigestLoginModule required user_super="canary1; };',
    "without the mark in front": 'Server { a.DigestLoginModule required user_super=canary1"; };',
    "without the option": 'Server { a.DigestLoginModule required "canary1"; };',
    "without required": 'Server { a.DigestLoginModule "canary1"; };',
    "with two values": 'Server { a.DigestLoginModule required user_super="x" "canary1"; };',
    "without a semicolon": 'Server { a.DigestLoginModule required user_super="canary1" };',
    "with a property": 'Server { a.DigestLoginModule required user_super="${canary1}"; };',
    "with equals twice": 'Server { a.DigestLoginModule required user_super="x" canary1=; };',
    "twice": 'Server { a.X required x="canary1"; }; Server { };',
}


def written(mistake: str, key: str) -> str:
    return mistake.format(key=key, misspelt=key[:-2] + key[-1], lower=key.lower())


def served(folder: Path, text: str, *options: str) -> str:
    (folder / "data").mkdir(exist_ok=True)
    file = folder / "zoo.cfg"
    file.write_text(f"dataDir={folder}/data\nclientPort=2181\n{text}")
    result = CliRunner().invoke(zab, ["serve", "--check", str(file), *options])
    assert result.exit_code in (0, 2), result
    return result.output


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("key", ZOO_SECRETS)
def test_check_of_a_zoo_cfg_shows_no_secret(tmp_path: Path, key: str, mistake: str) -> None:
    said = served(tmp_path, written(MISTAKES[mistake], key))
    assert CANARY not in said
    assert said


@pytest.mark.parametrize("option", ["{key}=canary1", "{key}:canary1", "canary1", "{key}s=canary1", "=canary1"])
@pytest.mark.parametrize("key", ZOO_SECRETS)
def test_options_of_zab_serve_show_no_secret(tmp_path: Path, key: str, option: str) -> None:
    assert CANARY not in served(tmp_path, "", "-D", option.format(key=key))


@pytest.mark.parametrize("mistake", JAAS)
def test_a_login_configuration_shows_no_secret(
    tmp_path: Path, mistake: str, capsys: pytest.CaptureFixture[str]
) -> None:
    login = tmp_path / "jaas.conf"
    login.write_text(JAAS[mistake])
    assert CANARY not in served(tmp_path, f"java.security.auth.login.config={login}\n")
    options = JAAS[mistake].replace("a.DigestLoginModule", "a.PlainLoginModule")[len("Server { ") :]
    for value in (options.removesuffix(" };"), options):
        text = f"{LISTENER}plain.sasl.jaas.config={value}\nlistener.security.protocol.map=PLAINTEXT:SASL_PLAINTEXT\n"
        assert CANARY not in checked(tmp_path, text, capsys)
    assert CANARY not in checked(tmp_path, f"java.security.auth.login.config={login}\n", capsys)


def checked(folder: Path, text: str, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    file = folder / "server.properties"
    file.write_text(f"zookeeper.connect=h:2181\nbroker.id=1\nlog.dirs={folder}/logs\n{text}")
    assert broker(["serve", "--check", str(file), *options]) in (0, 2)
    said = "".join(capsys.readouterr())
    assert said
    return said


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("key", BROKER_SECRETS)
def test_check_of_server_properties_shows_no_secret(
    tmp_path: Path, key: str, mistake: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert CANARY not in checked(tmp_path, written(MISTAKES[mistake], key), capsys)


@pytest.mark.parametrize("option", ["{key}=canary1", "{key}:canary1", "canary1", "{key}s=canary1", "=canary1"])
@pytest.mark.parametrize("key", BROKER_SECRETS)
def test_options_of_a_broker_show_no_secret(
    tmp_path: Path, key: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert CANARY not in checked(tmp_path, "", capsys, "--override", option.format(key=key))


@pytest.mark.parametrize("key", [*BROKER_SECRETS, "no.such.key"])
def test_clients_are_shown_no_secret_of_a_broker(key: str) -> None:
    text = f"zookeeper.connect=h:2181\nnum.partitions=3\n{key}=a.PlainLoginModule required user_ann=canary1;\n"
    try:
        file = plan_of("server.properties", text).config.settings
    except Exception:
        pytest.skip("the broker does not start with this alone")
    shown = of_broker(Layers({}, {}, file))
    assert CANARY not in str(shown)
    assert [entry.is_sensitive for entry in shown if entry.name == key] == [True]
    assert [entry.value for entry in shown if entry.name == "num.partitions"] == ["3"]


@pytest.mark.parametrize("key", BROKER_SECRETS)
def test_clients_are_shown_no_secret_of_the_store(key: str) -> None:
    (entry,) = of_all_brokers({key: "canary1"})
    assert (entry.value, entry.is_sensitive) == (None, True)
    assert CANARY not in str(entry)


@pytest.mark.parametrize("option", [["--auth", "canary1"], ["--sasl", "canary1"]])
def test_options_of_the_shell_show_no_secret(option: list[str]) -> None:
    result = CliRunner().invoke(zab, ["shell", *option, "ls", "/"])
    assert result.exit_code == 2
    assert CANARY not in result.output


@pytest.mark.parametrize("values", ["SCRAM-SHA-512=[password=canary1", "SCRAM-SHA-512[password=canary1]"])
def test_options_for_passwords_of_users_show_no_secret(values: str) -> None:
    with pytest.raises(Misused) as caught:
        as_verbs(["--alter", "--user", "ann", "--add-config", f"a=b,={values}"])
    assert CANARY not in str(caught.value)
    with pytest.raises(Misused) as caught:
        pair("--set", values.replace("=", " "))
    assert str(caught.value) == "--set: expected KEY=VALUE"
    with pytest.raises(Misused, match=r"^--set: expected"):
        pair("--set", "canary1")
    with pytest.raises(Misused, match=r"^--set retention\.ms: expected"):
        pair("--set", "retention.ms")


def test_which_keys_are_secret() -> None:
    for key in [
        "password", "superDigest", "ssl.keyStore.password", "sasl.jaas.config", "aws_secret_access_key", "Pwd",
        "delegation.token.secret.key", "ssl.keystore.key", "SASL.JAAS.CONFIG", "db-passwd", "x.api-key",
    ]:  # fmt: skip
        assert is_secret(key), key
    for key in [
        "ssl.keyStore.passwordPath", "ssl.keystore.location", "connection_throttle_tokens", "tickTime",
        "DigestAuthenticationProvider.digestAlg", "delegation.token.expiry.time.ms", "superUser.1",
    ]:  # fmt: skip
        assert not is_secret(key), key
    assert not [key for table in CONFIGURED.values() for key in table if is_secret(key)], "clients read these"


def test_copies_of_a_configuration_are_as_private_as_the_file(tmp_path: Path) -> None:
    config = tmp_path / "zoo.cfg"
    config.write_text("superDigest=super:x\nserver.1=a:1:2\n")
    config.chmod(0o600)
    write_membership(config, Ensemble.parse("server.1=a:1:2:participant;3\nversion=100000001"), 1)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("zoo.cfg", "zoo.cfg.bak")] == [0o600, 0o600]
