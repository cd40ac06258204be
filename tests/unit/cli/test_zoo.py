"""A configuration file and its resulting plan."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import trustme
from click.testing import CliRunner

from tests.integration.certificates import Authority
from zab.cli.root import zab
from zab.cli.zoo_cfg.dynamic_file import write_membership
from zab.cli.zoo_cfg.effective import effective
from zab.cli.zoo_cfg.keys import SECTIONS
from zab.cli.zoo_cfg.plan import ServerPlan, read_plan
from zab.config import values
from zab.config.config_source import BadConfig
from zab.config.key_table import ConfigKey
from zab.core.ensemble import Ensemble, Role
from zab.core.secrets import shown
from zab.core.zxid import Epoch
from zab.runtime.member_arguments import single_server_ensemble
from zab.service.zookeeper_peers import QuorumSasl, ZookeeperPeers
from zab.storage.epochs import EpochsRecord, encode
from zab.wire.client.client_frames import FOUR_LETTER_WORDS

ROOT = Path(__file__).resolve().parents[3]
THREE = "server.1=a:2888:3888\nserver.2=b:2888:3888\nserver.3=c:2888:3888:observer\ninitLimit=10\nsyncLimit=5\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path


def plan(folder: Path, text: str, *options: tuple[str, str], myid: str | None = None) -> ServerPlan:
    if myid is not None:
        (folder / "data" / "myid").write_text(myid)
    file = folder / "zoo.cfg"
    file.write_text(f"dataDir={folder}/data\nclientPort=2181\n{text}")
    return read_plan(file, options)


def other_warnings(made: ServerPlan) -> list[str]:
    """Return all warnings except the one about remote servers without TLS."""
    return [each for each in made.warnings if "without TLS" not in each]


def problems(folder: Path, text: str, *options: tuple[str, str], myid: str | None = None) -> str:
    with pytest.raises(BadConfig) as caught:
        plan(folder, text, *options, myid=myid)
    return str(caught.value)


# -- values ------------------------------------------------------------------------------------------------


def test_defaults_are_the_originals(folder: Path) -> None:
    made = plan(folder, "")
    assert (made.server_id, made.ensemble, made.client_host, made.client_port) == (1, None, None, 2181)
    assert made.settings.tick_ms == made.client_ports.tick_ms == 3000
    assert (made.client_ports.timeout_ms(1), made.client_ports.timeout_ms(10**9)) == (6000, 60_000)
    assert (made.admin, made.metrics, made.log, made.listen_host, made.warnings) == (None, None, None, None, ())


@pytest.mark.mechanism(96)
def test_every_kind_of_value_arrives_where_it_belongs(folder: Path) -> None:
    made = plan(
        folder,
        f"tickTime=500\nminSessionTimeout=700\nmaxSessionTimeout=-1\nmaxClientCnxns=0\nmaxCnxns=0\njute.maxbuffer=4096\n"
        f"snapCount=1000\nsnapSizeLimitInKb=10\nautopurge.snapRetainCount=5\ntxnLogSizeLimitInKb=64\npreAllocSize=0\n"
        f"dataLogDir={folder}/log\nquorumListenOnAllIPs=true\nskipACL=yes\nenforceQuota=true\ndb.autocreate=false\n"
        "zookeeper.extendedTypesEnabled=true\nzookeeper.DigestAuthenticationProvider.superDigest=super:x=\n"
        "DigestAuthenticationProvider.digestAlg=SHA-256\n4lw.commands.whitelist=ruok, stat\nreconfigEnabled=true\n"
        "clientPortAddress=127.0.0.1\n",
    )
    client_ports = made.client_ports
    assert (made.settings.tick_ms, client_ports.timeout_ms(1), client_ports.timeout_ms(10**9)) == (500, 700, 10_000)
    assert (
        client_ports.connections_per_host_max,
        client_ports.connections_max > 10**6,
        client_ports.frame_bytes_max,
    ) == (0, True, 4096)
    assert (made.limits.snap_entries, made.limits.snap_bytes, made.limits.snapshots_kept) == (1000, 10_240, 5)
    assert (made.storage.segment_bytes, made.storage.preallocate, made.storage.autocreate) == (65_536, False, False)
    assert (made.storage.snapshots_kept, made.log, made.listen_host) == (5, folder / "log", "0.0.0.0")
    assert (made.store.access.skip, made.store.enforce_quota, made.store.extended_types) == (True, True, True)
    assert (client_ports.super_digest, client_ports.digest_algorithm) == ("super:x=", "sha256")
    assert (client_ports.words, client_ports.reconfig_enabled) == (frozenset({"ruok", "stat"}), True)
    assert made.client_host == "127.0.0.1"
    assert made.warnings == ()


def test_star_enables_every_word_and_unknown_words_are_reported(folder: Path) -> None:
    assert plan(folder, "4lw.commands.whitelist=*\n").client_ports.words == frozenset(FOUR_LETTER_WORDS.values())
    (warning,) = plan(folder, "4lw.commands.whitelist=ruok,what\n").warnings
    assert warning.endswith("these words are unknown, and not answered: what")


def test_client_identities_and_counts(folder: Path) -> None:
    (folder / "jaas").write_text(
        'Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_bob="pw"; };'
    )
    made = plan(
        folder,
        f"java.security.auth.login.config={folder}/jaas\nsuperUser=bob\nenforce.auth.enabled=true\n"
        "enforce.auth.schemes=sasl\nDigestAuthenticationProvider.enabled=false\nauthProvider.1="
        "org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider\nensembleAuthName=blue\n"
        "localSessionsEnabled=true\nreadonlymode.enabled=true\nconnection_throttle_tokens=7\nthrottled_op_wait_time=8\n"
        "connection_throttle_drop_increase=0.5\ntickTime=5000\n",
    )
    security, throttle = made.client_ports.security, made.client_ports.throttle
    assert (dict(security.sasl_users), security.sasl_super) == ({"bob": "pw"}, frozenset({"bob"}))
    assert (security.required, security.digest) == (frozenset({"sasl"}), False)
    assert security.ensemble_names == frozenset({"blue"})
    assert (made.client_ports.local_sessions_enabled, made.client_ports.read_only_mode_enabled) == (True, True)
    assert made.client_ports.read_only_after_ms == 5000
    assert (throttle.connection_tokens, throttle.op_wait_ms, throttle.connection_drop_increase) == (7, 8, 0.5)
    assert made.warnings == ()
    several = problems(folder, "enforce.auth.enabled=true\nsecureClientPort=5\naudit.enable=perhaps\ntickTime=x\n")
    assert len(several.splitlines()) == 5
    told = problems(folder, "enforce.auth.enabled=true\nauthProvider.1=com.example.Mine\n")
    assert told.startswith(f"{folder}/zoo.cfg:4: authProvider.1=com.example.Mine: no such provider")


def test_audit_log_settings(folder: Path) -> None:
    audit = plan(folder, f"audit.enable=true\naudit.file={folder}/audit\n").client_ports.audit
    assert audit is not None
    assert audit.file == f"{folder}/audit"
    assert plan(folder, "audit.file=x\n").client_ports.audit is None


def certificates(folder: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    authority.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(folder / "me.pem"))


def test_ports_that_speak_tls(folder: Path) -> None:
    certificates(folder)
    stores = f"keyStore.location={folder}/me.pem", f"trustStore.location={folder}/ca.pem"
    client = "".join(f"ssl.{each}\n" for each in stores)
    made = plan(folder, client + "secureClientPort=2281\nssl.clientAuth=want\nclient.certReload=true\n")
    assert made.client_ports.tls is not None
    assert (made.secure_port, made.client_ports.tls.client_auth.value, made.client_ports.tls.reload) == (
        2281,
        "want",
        True,
    )
    assert (made.quorum_tls, made.warnings) == (None, ())
    made = plan(folder, "sslQuorum=true\n" + "".join(f"ssl.quorum.{each}\n" for each in stores))
    assert made.quorum_tls is not None
    assert (made.quorum_tls.dials, made.quorum_tls.plain_too) == (True, False)
    assert made.client_ports.tls is None
    made = plan(folder, "portUnification=true\n" + "".join(f"ssl.quorum.{each}\n" for each in stores))
    assert made.quorum_tls is not None
    assert (made.quorum_tls.dials, made.quorum_tls.plain_too) == (False, True)
    (warning,) = plan(folder, client).warnings
    assert "without effect: secureClientPort is not set, and client.portUnification is not on" in warning
    assert "ssl.keyStore.location is missing" in problems(folder, "secureClientPort=2281\n")
    for key in ("sslQuorum", "portUnification"):
        assert "ssl.quorum.keyStore.location is missing" in problems(folder, f"{key}=true\n")
    (warning,) = plan(folder, "ssl.keystore.location=x\n").warnings
    assert warning.endswith("did you mean ssl.keyStore.location?")
    told = problems(folder, f"secureClientPort=2281\nssl.clientAuth=none\nssl.keyStore.location={folder}/none.pem\n")
    assert f"{folder}/none.pem" in told
    secret = plan(folder, client + "secureClientPort=1\nssl.keyStore.password=hush\n", ("ssl.keyStore.type", "PEM"))
    assert "hush" not in effective(secret)


def test_ports_for_operators(folder: Path) -> None:
    made = plan(folder, "admin.serverPort=8081\nadmin.commandURL=/c\n")
    assert made.admin is not None
    assert (made.admin.port, made.admin.commands_path, made.metrics) == (8081, "/c", None)
    assert plan(folder, "admin.enableServer=false\nadmin.serverPort=8081\n").admin is None
    provider = "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider\n"
    made = plan(folder, provider + "metricsProvider.httpPort=7001\n")
    assert made.metrics is not None
    assert (made.metrics.port, made.metrics.parts) == (7001, frozenset({"metrics"}))


def test_admin_port_listens_on_loopback_by_default(folder: Path) -> None:
    made = plan(folder, "admin.serverPort=8081\n")
    assert made.admin is not None
    assert made.admin.host == "127.0.0.1"
    (warning,) = made.warnings
    assert "admin.serverAddress is missing" in warning
    for address in ("127.0.0.1", "::1", "localhost"):
        assert plan(folder, f"admin.serverPort=8081\nadmin.serverAddress={address}\n").warnings == ()
    for address in ("0.0.0.0", "10.0.0.1", "db1"):
        made = plan(folder, f"admin.serverPort=8081\nadmin.serverAddress={address}\n")
        assert made.admin is not None
        assert made.admin.host == address
        (warning,) = made.warnings
        assert "no TLS, and few commands require a login" in warning


def test_the_ports_for_operators_share_the_names_that_they_may_be_called_by(folder: Path) -> None:
    provider = "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider\n"
    made = plan(folder, provider + "admin.serverPort=8081\nadmin.allowedHosts=db1.example.com, db1\n")
    assert made.admin is not None
    assert made.metrics is not None
    assert made.admin.hosts == made.metrics.hosts == {"db1.example.com", "db1"}
    assert "admin.allowedHosts=db1,db1.example.com\n" in effective(made)


def test_an_option_counts_more_than_the_file(folder: Path) -> None:
    made = plan(folder, "tickTime=500\n", ("zookeeper.tickTime", "600"), ("jute.maxbuffer", "2000"))
    assert (made.settings.tick_ms, made.client_ports.frame_bytes_max, made.warnings) == (600, 2000, ())
    assert "-D: tickTime=x: expected a whole number" in problems(folder, "", ("tickTime", "x"))


# -- warnings ----------------------------------------------------------------------------------------------


def test_keys_without_effect_are_named_once_with_the_reason(folder: Path) -> None:
    (warning,) = plan(folder, "commitProcessor.numWorkerThreads=4\n").warnings
    assert warning.startswith(f"{folder}/zoo.cfg:3: commitProcessor.numWorkerThreads=4: without effect: ")


def test_key_with_the_default_behaviour_causes_no_warning(folder: Path) -> None:
    assert (
        plan(
            folder, "electionAlg=3\nforceSync=yes\nsyncEnabled=true\npreAllocSize=65536\nautopurge.purgeInterval=24\n"
        ).warnings
        == ()
    )
    assert plan(folder, "clientPortListenBacklog=-1\nmaxResponseCacheSize=400\ntcpKeepAlive=true\n").warnings == ()
    for line in ("autopurge.purgeInterval=0", "preAllocSize=64", "tcpKeepAlive=false"):
        (warning,) = plan(folder, f"{line}\n").warnings
        assert f"{line}: without effect" in warning


STRICT = [key for _, keys in SECTIONS for key in keys if key.ignored or key.convert not in (values.text, values.names)]


@pytest.mark.parametrize("key", STRICT, ids=lambda key: key.name)
def test_no_key_is_passed_over_in_silence(folder: Path, key: ConfigKey) -> None:
    """An invalid value is refused, or reported as without effect."""
    try:
        heard: tuple[str, ...] = plan(folder, "", (key.name, "no such value")).warnings
    except BadConfig as bad:
        heard = bad.problems
    assert [line for line in heard if f"{key.name}={shown(key.name, 'no such value')}" in line]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("maxClientCnxn", "maxClientCnxns"),
        ("ticktime", "tickTime"),
        ("zookeeper.extendedTypeEnabled", "extendedTypesEnabled"),
    ],
)
def test_unknown_key_is_reported_with_the_most_similar_one(folder: Path, written: str, meant: str) -> None:
    (warning,) = plan(folder, f"{written}=1\n").warnings
    assert warning.endswith(f"did you mean {meant}?")


def test_duplicate_key_is_reported_and_the_last_one_counts(folder: Path) -> None:
    made = plan(folder, "tickTime=500\nzookeeper.tickTime=600\n")
    assert made.settings.tick_ms == 600
    (warning,) = made.warnings
    assert warning == f"{folder}/zoo.cfg:4: tickTime=600: also at {folder}/zoo.cfg:3, as '500'; the last one counts"


def test_duplicate_option_is_reported_as_a_duplicate_key_is(folder: Path) -> None:
    made = plan(folder, "", ("tickTime", "500"), ("zookeeper.tickTime", "600"))
    assert made.settings.tick_ms == 600
    assert made.warnings == ("-D: tickTime=600: also at -D, as '500'; the last one counts",)
    told = problems(folder, "", ("server.1", "a:1:2"), ("server.1", "b:1:2"), myid="1")
    assert told == "-D: server.1=b:1:2: also at -D, as 'a:1:2': remove one of the two lines"


# -- mistakes ----------------------------------------------------------------------------------------------


def test_all_mistakes_are_reported_with_file_line_key_and_value(folder: Path) -> None:
    told = problems(
        folder, "tickTime=fast\nsnapCount=few\nskipACL=maybe\nserver.1=a:1\nclientPort=70000\n"
    ).splitlines()
    where = f"{folder}/zoo.cfg"
    assert f"{where}:3: tickTime=fast: expected a whole number, 10 or more" in told
    assert f"{where}:4: snapCount=few: expected a whole number, 2 or more" in told
    assert f"{where}:5: skipACL=maybe: expected true or false" in told
    assert f"{where}:6: server.1=a:1: expected host:quorumPort:electionPort[:role]" in told
    assert f"{where}:7: clientPort=70000: expected a whole number from 1 to 65535" in told
    assert len(told) == 5


def test_unreadable_files_are_reported_with_their_keys(folder: Path) -> None:
    gone, jaas = folder / "gone", folder / "jaas"
    jaas.write_text("Client {};")
    text = (
        f"secureClientPort=5\nssl.keyStore.location={gone}\nssl.trustStore.location={gone}\nsslQuorum=true\n"
        f"ssl.quorum.keyStore.location={gone}\nssl.quorum.trustStore.location={gone}\n"
        f"java.security.auth.login.config={jaas}\n"
    )
    told = problems(folder, text).splitlines()
    why = "No such file or directory"
    where = f"{folder}/zoo.cfg"
    assert sorted(told) == [
        f"{where}:4: ssl.keyStore.location={gone}: {why}",
        f"{where}:5: ssl.trustStore.location={gone}: {why}",
        f"{where}:7: ssl.quorum.keyStore.location={gone}: {why}",
        f"{where}:8: ssl.quorum.trustStore.location={gone}: {why}",
    ]
    jaas.unlink()
    assert f"{where}:3: java.security.auth.login.config={jaas}: {why}" in problems(
        folder, f"java.security.auth.login.config={jaas}\n"
    )


def test_login_file_without_a_section_for_servers_starts_without_sasl(folder: Path) -> None:
    """As in the original, unless the configuration names the section or requires every client to log in."""
    jaas = folder / "jaas"
    jaas.write_text("Client {};")
    line = f"java.security.auth.login.config={jaas}\n"
    made = plan(folder, line)
    (warning,) = made.warnings
    assert warning.startswith(f"{folder}/zoo.cfg:3: java.security.auth.login.config={jaas}: ")
    assert warning.endswith("has no section 'Server': this server starts without SASL")
    assert not made.client_ports.security.sasl_users
    assert "has no section 'Servers'; it has Client" in problems(folder, f"{line}sasl.serverconfig=Servers\n")
    why = f"no client can log in by SASL, because there are no users: {jaas} has no section 'Server'"
    told = problems(folder, f"{line}sessionRequireClientSASLAuth=true\n")
    assert f"zoo.cfg:4: sessionRequireClientSASLAuth=true: {why}" in told


def test_a_line_of_the_membership_that_is_there_twice_is_a_mistake(folder: Path) -> None:
    told = problems(folder, "server.1=a:1:2\nserver.1=b:1:2\n", myid="1")
    why = f"also at {folder}/zoo.cfg:3, as 'a:1:2': remove one of the two lines"
    assert told == f"{folder}/zoo.cfg:4: server.1=b:1:2: {why}"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="cannot be read: No such file"):
        read_plan(tmp_path / "none.cfg")


def test_a_file_without_a_directory(tmp_path: Path) -> None:
    (tmp_path / "zoo.cfg").write_text("clientPort=2181\n")
    with pytest.raises(BadConfig, match="dataDir is missing"):
        read_plan(tmp_path / "zoo.cfg")


def test_data_of_the_original_is_not_started_beside(folder: Path) -> None:
    (folder / "data" / "version-2").mkdir()
    assert plan(folder, "").warnings == ()
    (folder / "data" / "version-2" / "snapshot.0").touch()
    assert f"zab import {folder}/data NEW_DIRECTORY" in problems(folder, "")
    (folder / "data" / "identity").touch()
    plan(folder, "")


def test_a_directory_that_is_not_to_be_made_has_to_be_there(folder: Path) -> None:
    """Otherwise an unmounted disk would begin a new history."""
    text = f"datadir.autocreate=false\ndataLogDir={folder}/logs\n"
    assert f"dataLogDir={folder}/logs: does not exist" in problems(folder, text)
    (folder / "logs").mkdir()
    assert plan(folder, text).warnings == ()


def test_sessions_that_could_not_be(folder: Path) -> None:
    assert "minSessionTimeout=50000 is more than maxSessionTimeout=40000" in problems(
        folder, "tickTime=2000\nminSessionTimeout=50000\n"
    )


# -- what is told at once, and what not at all -------------------------------------------------------------


def test_configurations_of_the_original_are_accepted(folder: Path) -> None:
    made = plan(folder, "autopurge.snapRetainCount=1\nmaxClientCnxns=-1\nsnapCount=1\n")
    assert (made.limits.snapshots_kept, made.storage.snapshots_kept, made.limits.snap_entries) == (3, 3, 2)
    assert made.client_ports.connections_per_host_max == 0
    for wrong in ("1_0", "\u0663", "-9999999999"):
        assert "maxClientCnxns" in problems(folder, "", ("maxClientCnxns", wrong))
    assert [line.partition("cfg:")[2] for line in made.warnings] == [
        "3: autopurge.snapRetainCount=1: the minimum is 3, which is used",
        "4: maxClientCnxns=-1: the minimum is 0, which is used",
        "5: snapCount=1: the minimum is 2, which is used",
    ]


JAAS = """
QuorumServer { org.apache.zookeeper.server.auth.DigestLoginModule required user_zk="secret"; };
QuorumLearner { org.apache.zookeeper.server.auth.DigestLoginModule required username="zk" password="secret"; };
Kerberos { com.sun.security.auth.module.Krb5LoginModule required; };
"""


def test_servers_log_in_by_sasl(folder: Path) -> None:
    jaas = folder / "jaas.conf"
    jaas.write_text(JAAS)
    peers = THREE + "peerProtocol=zookeeper\n"
    on, learner, server = (
        f"quorum.auth.{key}=true\n" for key in ("enableSasl", "learnerRequireSasl", "serverRequireSasl")
    )
    login = f"java.security.auth.login.config={jaas}\n"
    made = plan(folder, peers + on + learner + server + login, myid="3")
    assert made.zookeeper == ZookeeperPeers(sasl=QuorumSasl(("zk", "secret"), {"zk": "secret"}, True))
    assert "secret" not in repr(made)
    assert not any("can be reached from other hosts" in each or "without SASL" in each for each in made.warnings)
    made = plan(folder, peers + on + login, myid="3")
    assert made.zookeeper == ZookeeperPeers(sasl=QuorumSasl(None, {"zk": "secret"}, False))
    for lines, expected in (
        (on, "java.security.auth.login.config is missing"),
        (learner + login, "it requires quorum.auth.enableSasl=true"),
        (on + server + login, "it requires quorum.auth.learnerRequireSasl=true"),
        (on + login + "quorum.auth.server.saslLoginContext=Kerberos\n", "only DigestLoginModule is supported"),
        (on + login + "quorum.auth.learner.saslLoginContext=QuorumServer\n", 'no username="NAME"'),
        (on + login + "quorum.auth.server.saslLoginContext=None\n", "has no section 'None'"),
    ):
        assert expected in problems(folder, peers + lines, myid="3")
    assert "only with peerProtocol=zookeeper" in problems(folder, THREE + on + login, myid="3")


def test_ocsp_is_refused_also_without_a_port_for_tls(folder: Path) -> None:
    for key in ("ssl.ocsp", "ssl.quorum.ocsp"):
        assert f"{key}=true: OCSP is not available here" in problems(folder, f"{key}=true\n")


def test_a_key_store_that_needs_a_package_is_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.split(".")[0] == "cryptography"] + ["cryptography"]:
        monkeypatch.setitem(sys.modules, name, None)
    (folder / "me.p12").write_bytes(b"\x300")
    text = f"secureClientPort=5\nssl.keyStore.location={folder}/me.p12\nssl.clientAuth=none\n"
    assert f"{folder}/me.p12: reading PKCS#12 needs" in problems(folder, text)


def test_both_stores_are_reported(folder: Path) -> None:
    told = problems(folder, "secureClientPort=5\n")
    assert "ssl.keyStore.location is missing" in told
    assert "ssl.trustStore.location is missing" in told
    told = problems(folder, "sslQuorum=true\nssl.quorum.keyStore.location=no1\nssl.quorum.trustStore.location=no2\n")
    assert "no1: No such file" in told
    assert "no2: No such file" in told


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("secureClientPort=2181\n", "clientPort and secureClientPort are both 2181"),
        ("admin.serverPort=2181\n", "clientPort and admin.serverPort are both 2181"),
        ("server.1=127.0.0.1:2181:3888\n", "clientPort and the first port of server.1 are both 2181"),
        ("server.1=a:1:2\nadmin.serverPort=2\nquorumListenOnAllIPs=true\n", "admin.serverPort and the second port"),
    ],
)
def test_ports_of_one_server_that_are_one_port(folder: Path, text: str, keys: str) -> None:
    certificates(folder)
    stores = f"ssl.keyStore.location={folder}/me.pem\nssl.trustStore.location={folder}/ca.pem\n"
    assert keys in problems(folder, text + stores, myid="1")
    apart = text.replace("server.1=127.0.0.1", "clientPortAddress=127.0.0.2\nserver.1=127.0.0.1")
    if apart != text:
        plan(folder, apart, myid="1")


def test_invalid_session_bounds_are_reported_with_the_rest(folder: Path) -> None:
    told = problems(folder, "tickTime=2000\nminSessionTimeout=50000\nskipACL=maybe\n")
    assert "minSessionTimeout=50000 is more than" in told
    assert "skipACL=maybe" in told


def test_all_mistakes_of_a_membership_are_reported_together(folder: Path) -> None:
    lines = "server.1=a:1:2\nserver.2=a:1:3\ngroup.1=1:2\ngroup.2=2\nweight.1=-1\n"
    told = problems(folder, lines + "initLimit=5\nsyncLimit=5\n", myid="1")
    for line, what in (
        (4, "servers 1 and 2 have the same address, a:1"),
        (6, "server 2 is in more than one group"),
        (7, "weight.1=-1: a weight"),
    ):
        assert f"{folder}/zoo.cfg:{line}: the membership: {what}" in told


def test_group_with_two_spellings_of_its_number_is_reported(folder: Path) -> None:
    servers = "".join(f"server.{sid}=a:{sid}1:{sid}2\n" for sid in (1, 2, 3))
    told = problems(folder, servers + "group.1=1\ngroup.2=2\ngroup.01=3\ninitLimit=5\nsyncLimit=5\n", myid="1")
    assert "the membership: group.1 is listed twice" in told


def test_one_mistake_is_one_line(folder: Path) -> None:
    (line,) = problems(folder, "clientPortAddress=127.0.0.1\nclientPort=99999\n").splitlines()
    assert "clientPort=99999: expected" in line
    (folder / "file").touch()
    (folder / "zoo.cfg").write_text(f"dataDir={folder}/file\nclientPort=2181\n")
    with pytest.raises(BadConfig) as caught:
        read_plan(folder / "zoo.cfg")
    assert caught.value.problems == (f"{folder}/zoo.cfg:1: dataDir={folder}/file: is not a directory",)


# -- who takes part ----------------------------------------------------------------------------------------


@pytest.mark.mechanism(95, 96)
def test_an_ensemble(folder: Path) -> None:
    made = plan(folder, THREE, myid="3\n")
    assert made.ensemble is not None
    assert made.server_id == 3
    assert made.ensemble.voters == (1, 2)
    assert made.ensemble.by_id[made.ensemble.observers[0]].role is Role.OBSERVER


@pytest.mark.parametrize(
    ("myid", "says"),
    [
        (None, "is missing"),
        ("4", "there is no line server.4"),
        ("one", "must hold this server's number"),
        ("", "must hold this server's number"),
    ],
)
def test_invalid_myid(folder: Path, myid: str | None, says: str) -> None:
    assert says in problems(folder, THREE, myid=myid)


def test_an_ensemble_needs_its_limits(folder: Path) -> None:
    told = problems(folder, "server.1=a:1:2\nserver.2=b:1:2\n", myid="1")
    assert "initLimit is missing" in told
    assert "syncLimit is missing" in told


def test_new_member_starts_with_default_limits(folder: Path) -> None:
    two = "server.1=a:1:2\nserver.2=b:1:2\n"
    remember(folder, two)
    made = plan(folder, two + "syncLimit=7\n", myid="1")
    (warning,) = other_warnings(made)
    assert "initLimit is missing, and an ensemble needs it (ticks to connect to the elected leader)" in warning
    assert "): 10 is used" in warning
    assert (made.settings.init_limit, made.settings.sync_limit, made.lacks) == (10, 7, ("initLimit",))


def test_groups_and_weights(folder: Path) -> None:
    lines = "server.1=a:1:2\nserver.2=b:1:2\ngroup.1=1:2\nweight.1=2\nweight.2=1\ninitLimit=5\nsyncLimit=5\n"
    made = plan(folder, lines, myid="2")
    assert made.ensemble is not None
    assert made.ensemble.weight(made.ensemble.voters[0]) == 2
    assert "the membership: " in problems(folder, lines + "group.2=1\n", myid="2")
    assert "there is no server.N line that it could belong to" in problems(folder, "group.1=1:2\n")


def test_of_several_addresses_the_first_is_used(folder: Path) -> None:
    made = plan(folder, "server.1=a:1:2|b:3:4;2181\n", myid="1")
    assert made.ensemble is not None
    assert made.ensemble.servers[0].text() == "server.1=a:1:2:participant;0.0.0.0:2181"
    assert "only the first address, a:1:2, is used" in made.warnings[0]


def test_client_port_in_two_places_must_agree(folder: Path) -> None:
    assert plan(folder, "server.1=a:1:2;127.0.0.1:2181\n", myid="1").client_host == "127.0.0.1"
    assert "says 2182 for the same port" in problems(folder, "server.1=a:1:2;2182\n", myid="1")
    (folder / "zoo.cfg").write_text(f"dataDir={folder}/data\nserver.1=a:1:2;2185\n")
    assert read_plan(folder / "zoo.cfg").client_port == 2185


def test_a_peer_type_that_contradicts_its_line(folder: Path) -> None:
    (warning,) = other_warnings(plan(folder, THREE + "peerType=observer\n", myid="1"))
    assert "server.1 is listed as participant" in warning
    assert "needs an ensemble" in problems(folder, "peerType=observer\n", myid="1")


def test_protocol_of_zookeeper_is_for_members_of_an_ensemble(folder: Path) -> None:
    assert plan(folder, THREE + "peerProtocol=zab\n", myid="1").zookeeper is None
    assert plan(folder, THREE + "peerProtocol=ZooKeeper\n", myid="3").zookeeper == ZookeeperPeers()
    made = plan(folder, THREE + "peerProtocol=zookeeper\nreconfigEnabled=true\n", myid="3")
    assert made.zookeeper == ZookeeperPeers(reconfig_enabled=True)
    assert "one of zab, zookeeper" in problems(folder, THREE + "peerProtocol=kafka\n", myid="3")
    (folder / "data" / "myid").unlink()
    assert "requires server.N lines" in problems(folder, "peerProtocol=zookeeper\n")
    two = "server.4=d:2888:3888|e:2888:3888:observer\n"
    assert "a server has one address" in problems(folder, THREE + two + "peerProtocol=zookeeper\n", myid="3")


def test_without_servers_and_not_alone(folder: Path) -> None:
    assert "requires server.N lines, and there are none" in problems(folder, "standaloneEnabled=false\n")


# -- the membership in a file of its own -------------------------------------------------------------------


def test_a_dynamic_file_is_read(folder: Path) -> None:
    dynamic = folder / "zoo.cfg.dynamic.100000005"
    dynamic.write_text("server.1=a:1:2:participant;2181\nserver.2=b:1:2:participant;2181\n")
    made = plan(folder, f"initLimit=5\nsyncLimit=5\ndynamicConfigFile={dynamic}\n", myid="1")
    assert made.ensemble is not None
    assert made.ensemble.version == 0x100000005
    assert "not in both" in problems(folder, f"dynamicConfigFile={dynamic}\nserver.1=a:1:2\n", myid="1")
    dynamic.write_text("tickLimit=5\n")
    assert "only server.N, group.N and weight.N" in problems(folder, f"dynamicConfigFile={dynamic}\n", myid="1")
    assert "cannot be read" in problems(folder, f"dynamicConfigFile={folder}/none\n", myid="1")


def test_a_changed_membership_is_written_back_and_read_again(folder: Path) -> None:
    text = "# ours\ntickTime=500\n" + THREE + "server.4=d:1\\\n  :2\n# the end\n"
    before = plan(folder, text, myid="1").path.read_text()
    new = Ensemble.parse("server.1=a:2888:3888;2181\nserver.5=e:2888:3888;2181\nversion=200000001")
    written = write_membership(folder / "zoo.cfg", new, 1)
    assert written == folder / "zoo.cfg.dynamic.200000001"
    assert (folder / "zoo.cfg.bak").read_text() == before
    rest = "# ours\ntickTime=500\ninitLimit=10\nsyncLimit=5\n# the end\n"
    assert (folder / "zoo.cfg").read_text() == f"dataDir={folder}/data\n{rest}dynamicConfigFile={written}\n"
    again = read_plan(folder / "zoo.cfg")
    assert (again.ensemble, again.client_port) == (new, 2181)


def test_a_changed_membership_is_found_again_from_another_directory(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan(folder, THREE, myid="1")
    new = Ensemble.parse("server.1=a:2888:3888;2181\nserver.5=e:2888:3888;2181\nversion=200000001")
    monkeypatch.chdir(folder)
    assert write_membership(Path("zoo.cfg"), new, 1) == folder / "zoo.cfg.dynamic.200000001"
    monkeypatch.chdir("/")
    assert read_plan(folder / "zoo.cfg").ensemble == new
    file = folder / "zoo.cfg"
    file.write_text(file.read_text().replace(f"={folder}/zoo.cfg.dynamic", "=zoo.cfg.dynamic"))
    assert read_plan(file).ensemble == new, "one that was written in this directory, without it in its name"


def test_members_that_cannot_be_read_are_not_compared(folder: Path) -> None:
    remember(folder, THREE.partition("init")[0])
    (folder / "zoo.cfg").write_text(f"dataDir={folder}/data\ndynamicConfigFile={folder}/none\n")
    (folder / "data" / "myid").write_text("1")
    with pytest.raises(BadConfig) as caught:
        read_plan(folder / "zoo.cfg")
    where = f"{folder}/zoo.cfg:2: dynamicConfigFile={folder}/none"
    assert caught.value.problems == (f"{where}: cannot be read: there is no such file",)
    assert not any("stores" in each for each in caught.value.warnings)


# -- the stored membership --- ---------------------------------------------------------------------


def remember(folder: Path, text: str, version: str = "100000000") -> None:
    record = EpochsRecord(Epoch(1), Epoch(1), Ensemble.parse(f"{text}\nversion={version}"))
    (folder / "data" / "epochs").write_bytes(encode(record))


FOUR = THREE.replace("server.2=b", "server.2=elsewhere") + "server.4=d:2888:3888\n"


def test_the_same_members_and_other_addresses_for_clients(folder: Path) -> None:
    remember(folder, "server.1=a:2888:3888;1\nserver.2=b:2888:3888\nserver.3=c:2888:3888:observer")
    assert other_warnings(plan(folder, THREE, myid="1")) == []
    (warning,) = other_warnings(plan(folder, THREE.replace("a:2888:3888", "a:2888:3888;2181"), myid="1"))
    assert "clients still get the stored line server.1=a:2888:3888:participant;0.0.0.0:1" in warning
    assert plan(folder, THREE, myid="1").replaces is False


def test_other_members_are_refused_or_taken_on_purpose(folder: Path) -> None:
    remember(folder, THREE.partition("init")[0])
    told = problems(folder, FOUR, myid="1")
    assert "(version 100000000 (1/0)):" in told
    assert "in the file: server.2=elsewhere:2888:3888:participant; stored: server.2=b:2888:3888:participant" in told
    assert "only in the file: server.4=d:2888:3888:participant" in told
    assert "server.1" not in told
    assert "only stored: server.2" in problems(folder, "", myid="1"), "no lines are other lines, too"
    (warning,) = other_warnings(plan(folder, FOUR + "reconfigEnabled=true\n", myid="1"))
    assert "the stored membership takes precedence" in warning
    (folder / "zoo.cfg").write_text(f"dataDir={folder}/data\nclientPort=2181\n{FOUR}")
    made = read_plan(folder / "zoo.cfg", from_file=True)
    assert made.ensemble is not None
    assert (made.replaces, made.ensemble.voters, "FROM NOW ON" in made.warnings[0]) == (True, (1, 2, 4), True)
    (folder / "zoo.cfg").write_text(f"dataDir={folder}/data\nserver.1=a:1:2\nserver.8=b:1:2\nserver.9=c:1:2\n")
    with pytest.raises(BadConfig, match="the new servers, 8, 9, would be a quorum"):
        read_plan(folder / "zoo.cfg", from_file=True)


def test_a_dynamic_file_of_the_stored_version_that_was_edited_does_not_count(folder: Path) -> None:
    remember(folder, THREE.partition("init")[0], "100000005")
    dynamic = folder / "zoo.cfg.dynamic.100000005"
    dynamic.write_text("\n".join(each for each in FOUR.splitlines() if each.startswith("server.")))
    made = plan(folder, f"initLimit=5\nsyncLimit=5\nreconfigEnabled=true\ndynamicConfigFile={dynamic}\n", myid="1")
    assert made.ensemble is not None
    assert made.ensemble.version == 0


@pytest.mark.parametrize("more", ["", "reconfigEnabled=true\n"])
def test_single_server_takes_its_address_from_the_file_and_no_others(folder: Path, more: str) -> None:
    remember(folder, single_server_ensemble(1).text())
    assert plan(folder, more, myid="1").warnings == ()
    assert "served alone until now" in problems(folder, THREE + more, myid="1")
    made = plan(folder, f"server.1=a:2888:3888\n{more}", myid="1")
    assert made.replaces
    assert "takes its address from the file" in made.warnings[0]


def test_server_outside_the_membership_is_reported(folder: Path) -> None:
    remember(folder, THREE.partition("init")[0])
    (warning,) = other_warnings(plan(folder, FOUR, myid="4"))
    assert "Server 4 is not a member in the stored membership" in warning
    assert "a reconfiguration has removed it" in problems(folder, THREE, myid="4")


# -- what is shown -----------------------------------------------------------------------------------------


def test_output_of_check_is_an_equivalent_configuration(folder: Path) -> None:
    made = plan(folder, THREE + "snapSizeLimitInKb=10\nadmin.serverPort=8081\n", myid="1")
    again = folder / "again.cfg"
    again.write_text(effective(made))
    second = read_plan(again)
    assert other_warnings(second) == []
    assert effective(second).splitlines()[1:] == effective(made).splitlines()[1:]
    assert (second.settings, second.limits, second.storage) == (made.settings, made.limits, made.storage)


def test_check_reports_and_starts_nothing(folder: Path) -> None:
    plan(folder, "maxClientCnxn=5\n")
    result = CliRunner().invoke(zab, ["serve", "--check", str(folder / "zoo.cfg")])
    assert result.exit_code == 0
    assert "tickTime=3000\n" in result.stdout
    assert result.stderr.startswith(f"warning: {folder}/zoo.cfg:3: maxClientCnxn=...: this key is unknown")
    assert sorted(each.name for each in folder.iterdir()) == ["data", "zoo.cfg"]


def test_mistakes_are_status_2_and_one_line_each(folder: Path) -> None:
    problems(folder, "tickTime=fast\nsnapCount=few\n")
    result = CliRunner().invoke(zab, ["serve", str(folder / "zoo.cfg")])
    assert result.exit_code == 2
    assert [line.partition(":")[0] for line in result.stderr.splitlines()] == ["error", "error"]
    assert CliRunner().invoke(zab, ["serve", "x", "-D", "novalue"]).exit_code == 2


# -- servers that strangers could pose as ------------------------------------------------------------------


@pytest.mark.parametrize(("text", "warned"), [
    ("", False),
    ("server.1=127.0.0.1:1:2\n", False),
    ("server.1=localhost:1:2\nserver.2=[::1]:3:4\nserver.3=127.9.9.9:5:6\n", False),
    ("server.1=127.0.0.1:1:2\nserver.2=127.0.0.1:3:4\nquorumListenOnAllIPs=true\n", True),
    ("server.1=10.0.0.1:1:2\n", True),
    ("server.1=localhost:1:2\nserver.2=b.example:3:4\n", True),
])  # fmt: skip
def test_servers_without_tls_off_loopback_are_warned_of(folder: Path, text: str, warned: bool) -> None:
    made = plan(folder, f"{text}initLimit=10\nsyncLimit=5\n", myid="1")
    assert ["servers speak without TLS" in each for each in made.warnings] == [True] * warned


@pytest.mark.parametrize(("own", "keys", "expected"), [
    (True, True, []),
    (False, True, ["trust the same authority"]),
    (False, False, ["hold the same certificate", "trust the same authority"]),
])  # fmt: skip
def test_shared_certificates_of_servers_and_clients_cause_a_warning(
    folder: Path, own: bool, keys: bool, expected: list[str]
) -> None:
    clients = Authority(folder / "clients")
    servers = Authority(folder / "servers") if own else clients
    key = clients.issue("clients").path
    lines = {
        "ssl.keyStore.location": key,
        "ssl.trustStore.location": clients.path,
        "ssl.quorum.keyStore.location": servers.issue("server").path if keys else key,
        "ssl.quorum.trustStore.location": servers.path,
    }
    text = "".join(f"{name}={value}\n" for name, value in lines.items())
    made = plan(folder, f"{THREE}sslQuorum=true\nsecureClientPort=2281\n{text}", myid="1")
    assert [words in each for words, each in zip(expected, made.warnings, strict=True)] == [True] * len(expected)
    shown = CliRunner().invoke(zab, ["serve", "--check", str(folder / "zoo.cfg")])
    assert shown.exit_code == 0
    assert all(words in shown.output for words in expected)
