"""The login at ZooKeeper: where it stands, what it lacks, and which rights nodes get."""

from pathlib import Path

import pytest

from pkafka.coordination.administration import OPEN_TO_ALL
from pkafka.coordination.zookeeper_access import ZooKeeperLogin, rights_at
from pkafka.errors import ConfigError
from pkafka.security import zookeeper_login as login_module
from pkafka.security.zookeeper_login import check_protection, zookeeper_login

MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule required"


def name_file(monkeypatch: pytest.MonkeyPatch, path: Path, text: str) -> None:
    path.write_text(text)
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={path}")


def test_a_login_and_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_module, "find_spec", lambda name: name)
    monkeypatch.delenv("KAFKA_OPTS", raising=False)
    assert zookeeper_login() is None
    check_protection(protects=False)
    with pytest.raises(
        ConfigError, match=r"zookeeper.set.acl=true: needs a login at ZooKeeper: a section 'Client'"
    ):
        check_protection(protects=True)
    name_file(monkeypatch, tmp_path / "other", "KafkaServer { };")
    assert zookeeper_login() is None
    name_file(monkeypatch, tmp_path / "one", f'Client {{ {MODULE} username="u" password="secret"; }};')
    assert zookeeper_login() == ZooKeeperLogin("u", "secret")
    assert "secret" not in repr(zookeeper_login())
    check_protection(protects=True)


@pytest.mark.parametrize(
    ("text", "has_package", "problem"),
    [
        ("Client { a.Krb5LoginModule required; };", True, "by DIGEST-MD5 alone"),
        (f'Client {{ {MODULE} username="u"; }};', True, "in section 'Client' has no password"),
        (
            f'Client {{ {MODULE} username="u" password="p"; }};',
            False,
            r"pip install 'pkafka\[zookeeper-sasl\]'",
        ),
    ],
)
def test_a_login_that_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, has_package: bool, problem: str
) -> None:
    monkeypatch.setattr(login_module, "find_spec", lambda name: name if has_package else None)
    name_file(monkeypatch, tmp_path / "file", text)
    with pytest.raises(ConfigError, match=problem):
        zookeeper_login()


def test_rights_of_nodes() -> None:
    assert [(each.scheme, int(each.perms)) for each in rights_at("/brokers/ids/1")] == [
        ("auth", 31),
        ("world", 1),
    ]
    for path in ("/config/users", "/config/users/alice", "/config/brokers/1", "/delegation_token/tokens/x"):
        assert [(each.scheme, int(each.perms)) for each in rights_at(path)] == [("auth", 31)]
    assert rights_at("/consumers") == OPEN_TO_ALL
