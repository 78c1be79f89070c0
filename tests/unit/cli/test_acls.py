"""What the flags of pk-acls mean; tests/interop/test_acls_tool.py compares with Apache Kafka's tool."""

from pathlib import Path
from typing import Any

import pytest

from pkafka.cli.acls import main
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.coordination.embedded import EmbeddedStore
from pkafka.security.acl import (
    Acl,
    AclFilter,
    Entry,
    Operation,
    Pattern,
    PatternFilter,
    PatternType,
    Permission,
    ResourceType,
)
from pkafka.tools.acls.in_store import AclsInStore


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "exactly one action"),
        (["--list", "--remove"], "exactly one action"),
        (["--add", "--topic", "a", "--host", "h"], "--host option is only available if --explain is set"),
        (["--list", "--dry-run"], "can't be used"),
        (["--explain", "--topic", "a"], 'Missing required argument "[principal]"'),
        (["--explain", "--principal", "User:a", "--topic", "a"], 'Missing required argument "[operation]"'),
        (["--add", "--topic", "a", "--operation", "Fly"], "There is no operation Fly"),
        (["--list", "--authorizer", "my.Authorizer"], "knows kafka.security.authorizer.AclAuthorizer only"),
        (["--list", "--authorizer-properties", "a=b"], "needs zookeeper.connect"),
        (["--list", "--authorizer-properties", "ab"], "needs key=value"),
    ],
)
def test_what_makes_no_sense_is_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PK_BOOTSTRAP_SERVER", "127.0.0.1:1")
    assert main.run(words) == ExitStatus.USAGE
    assert said in capsys.readouterr().err


def test_rules_in_the_store_itself(tmp_path: Path) -> None:
    """What --authorizer-properties does; here in the store of a broker without ZooKeeper."""
    topic, everything = Pattern(ResourceType.TOPIC, "t"), AclFilter()
    acl = Acl(topic, Entry("User:a", "*", Operation.READ, Permission.ALLOW))
    other = Acl(topic._replace(kind=PatternType.PREFIXED), acl.entry)
    with EmbeddedStore(tmp_path / "store.sqlite") as store:
        rules = AclsInStore(store)
        wrong = Acl(Pattern(ResourceType.GROUP, ".."), acl.entry)
        outcomes: dict[Acl, Any] = dict(rules.create_acls([acl, other, wrong]))
        assert (outcomes.pop(acl), outcomes.pop(other)) == (None, None)
        assert "cannot be a name" in str(outcomes[wrong])
        assert set(AclsInStore(store).describe_acls()) == {acl, other}
        wanted = AclFilter(PatternFilter(ResourceType.TOPIC, "t", PatternType.LITERAL))
        assert rules.delete_acls([wanted]) == {wanted: {acl: None}}
        assert AclsInStore(store).describe_acls(everything) == [other]
