"""Who decides, and what of the decisions is remembered."""

import logging
from collections.abc import Mapping
from typing import Any, ClassVar, cast

import msgpack
import pytest

from pkafka.errors import ApiError, ConfigError
from pkafka.security.acl import Entry, Operation, Pattern, PatternType, Permission, ResourceType
from pkafka.security.principal import ANONYMOUS, Principal
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.ipc import words
from pkafka.server.security import acl_rows, authorizer, rights
from pkafka.server.security.authorizer import (
    ACL_AUTHORIZER,
    KEY,
    AclAuthorizer,
    Resource,
    authorizer_of,
    check,
    rights_of,
)
from pkafka.server.security.rights import UNLIMITED, cluster_operations_of, may_in_cluster, operations_of

HERE = __name__
ALICE = Principal("User", "alice")
HOST = "::1"
TOPIC = ResourceType.TOPIC
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
ORDERS = Pattern(TOPIC, "orders")
MAY_READ = Entry("User:alice", "*", READ, Permission.ALLOW)


class Own:
    """A class of an operator: whoever is named in its setting may read."""

    seen: ClassVar[list[tuple[str, str, str, Resource]]] = []
    closed = 0

    def configure(self, configs: Mapping[str, str]) -> None:
        self.reader = configs["own.reader"]

    def authorize(self, principal: str, host: str, operation: str, resource: Resource) -> bool:
        self.seen.append((principal, host, operation, resource))
        if resource.name == "boom":
            raise OSError("boom")
        return principal == self.reader and operation == "Read"

    def close(self) -> None:
        Own.closed += 1
        raise OSError("boom")


class Half:
    """It lacks methods."""

    def authorize(self) -> bool:
        return True


NO_CLASS = 5


def config(name: str, **settings: str) -> BrokerConfig:
    return BrokerConfig({KEY: name, **{key.replace("_", "."): text for key, text in settings.items()}})


def acl_authorizer(**settings: str) -> AclAuthorizer:
    made = authorizer_of(config(ACL_AUTHORIZER, **settings))
    assert isinstance(made, AclAuthorizer)
    return made


def test_without_an_authorizer_everything_is_allowed() -> None:
    assert authorizer_of(BrokerConfig({})) is None
    every = rights_of(None, ANONYMOUS, HOST)
    assert every is UNLIMITED
    assert every.readable["a"]
    assert every.writable["b"]
    assert may_in_cluster(every, Operation.ALTER)
    assert every.may_any(WRITE, TOPIC)
    every.denied(READ, TOPIC, "a")
    assert operations_of(every, TOPIC, "a") == sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))
    assert operations_of(every, ResourceType.GROUP, "g") == sum(1 << code for code in (3, 6, 8))
    assert cluster_operations_of(every) == sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))


def test_before_the_rules_are_known_a_client_is_told_nothing() -> None:
    made = acl_authorizer(super_users="User:alice")
    made.change({ORDERS: [MAY_READ]})
    with pytest.raises(ApiError, match="not known yet"):
        made.rights(ALICE, HOST)
    made.replace({})
    assert made.rights(ALICE, HOST).may(READ, TOPIC, "orders")
    assert not made.rights(ANONYMOUS, HOST).may(READ, TOPIC, "orders")


def test_rights_are_the_same_object_until_the_rules_change() -> None:
    made = acl_authorizer()
    made.replace({ORDERS: [MAY_READ]})
    first = made.rights(ALICE, HOST)
    assert made.rights(ALICE, HOST) is first
    assert made.rights(ALICE, "10.0.0.1") is not first
    assert (first.readable["orders"], first.writable["orders"], first.readable["others"]) == (
        True,
        False,
        False,
    )
    assert not first.may_any(WRITE, TOPIC)
    made.change({ORDERS: []})
    assert made.rights(ALICE, HOST) is not first
    assert not made.rights(ALICE, HOST).readable["orders"]
    made.close()


def test_no_more_is_remembered_than_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rights, "_REMEMBERED_MAX", 10)
    monkeypatch.setattr(authorizer, "_CLIENTS_MAX", 3)
    made = acl_authorizer()
    made.replace({Pattern(TOPIC, "o", PatternType.PREFIXED): [MAY_READ]})
    some = made.rights(ALICE, HOST)
    for number in range(100):
        assert some.readable[f"o{number}"]
        assert not made.rights(Principal("User", str(number)), HOST).may(READ, TOPIC, "o")
    assert len(some.readable) <= 10
    assert some.readable["o0"]


def test_hosts_are_compared_as_java_writes_them() -> None:
    made = acl_authorizer()
    made.replace({ORDERS: [MAY_READ._replace(host="0:0:0:0:0:0:0:1")]})
    assert made.rights(ALICE, "::1").readable["orders"]
    assert not made.rights(ALICE, "::2").readable["orders"]


def test_what_a_client_asked_for_and_may_not_have_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    made = acl_authorizer()
    made.replace({})
    some = made.rights(ALICE, HOST)
    with caplog.at_level(logging.INFO, "kafka.authorizer.logger"):
        some.sees(DESCRIBE, TOPIC, "orders")
        assert caplog.messages == []
        some.may(DESCRIBE, TOPIC, "orders")
        may_in_cluster(some, Operation.CLUSTER_ACTION)
    assert caplog.messages == [
        "Principal = User:alice is Denied Operation = Describe from host = 0:0:0:0:0:0:0:1"
        " on resource = Topic:LITERAL:orders",
        "Principal = User:alice is Denied Operation = ClusterAction from host = 0:0:0:0:0:0:0:1"
        " on resource = Cluster:LITERAL:kafka-cluster",
    ]
    assert cluster_operations_of(some) == 0


def test_denials_are_counted_by_principal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rights, "_COUNTED_MAX", 2)
    made = AclAuthorizer([], allows_unruled=False)
    made.replace({})
    for name in ("alice", "bob", "alice", "carol", "dave"):
        assert not made.rights(Principal("User", name), HOST).may(
            Operation.READ, ResourceType.TOPIC, "orders"
        )
    # What nobody asked for is not denied.
    assert not made.rights(Principal("User", "bob"), HOST).sees(Operation.READ, ResourceType.TOPIC, "orders")
    assert made.denials == {"User:alice": 2, "User:bob": 1, "others": 2}


def test_a_class_of_the_operator_decides(caplog: pytest.LogCaptureFixture) -> None:
    Own.seen.clear()
    for name in (f"{HERE}.Own", f"{HERE}:Own"):
        check(config(name))
        made = authorizer_of(config(name, own_reader="User:alice"))
    assert made is not None
    some = made.rights(ALICE, HOST)
    assert some.readable["orders"]
    assert some.readable["orders"]
    assert not some.writable["orders"]
    assert not some.may_any(WRITE, TOPIC)
    assert not made.rights(ANONYMOUS, HOST).readable["orders"]
    assert not some.readable["boom"]
    java = "0:0:0:0:0:0:0:1"
    orders, every = Resource("Topic", "orders"), Resource("Topic", "*")
    assert Own.seen == [
        ("User:alice", java, "Read", orders),
        ("User:alice", java, "Read", orders),
        ("User:alice", java, "Write", orders),
        ("User:alice", java, "Write", every),
        ("User:ANONYMOUS", java, "Read", orders),
        ("User:alice", java, "Read", Resource("Topic", "boom")),
    ]
    assert "is denied" in caplog.text
    made.close()
    assert Own.closed == 1


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (
            "kafka.security.auth.SimpleAclAuthorizer",
            "could not be found: it must be kafka.security.authorizer",
        ),
        ("org.apache.kafka.metadata.authorizer.StandardAuthorizer", "could not be found"),
        ("no.such.Class", "could not be found: it must be a class of Python"),
        ("NoDots", "could not be found"),
        (f"{HERE}.NO_CLASS", "it lacks configure, authorize, close"),
        (f"{HERE}.Half", "it lacks configure, close"),
    ],
)
def test_a_class_that_cannot_decide_is_refused_before_the_start(name: str, problem: str) -> None:
    for load in (check, authorizer_of):
        with pytest.raises(ConfigError, match=problem) as caught:
            load(config(name))
        assert caught.value.key == KEY


def test_a_class_that_fails_when_it_is_made_is_refused() -> None:
    with pytest.raises(ConfigError, match="cannot be made or configured"):
        authorizer_of(config(f"{HERE}.Own"))  # its setting is missing


def test_rules_travel_to_a_worker() -> None:
    rules = {ORDERS: (MAY_READ,), Pattern(ResourceType.GROUP, "g", PatternType.PREFIXED): ()}
    made = acl_authorizer()
    told = acl_rows.operations(made)
    rows = msgpack.unpackb(msgpack.packb(acl_rows.rows_of(rules)))
    assert acl_rows.rules_in(rows) == rules
    nothing = cast("Any", None)
    told[words.ACLS](nothing, rows, memoryview(b""), [])
    assert made.rights(ALICE, HOST).readable["orders"]
    told[words.ACLS_CHANGED](nothing, [(ORDERS, [])], memoryview(b""), [])
    assert not made.rights(ALICE, HOST).readable["orders"]
    assert acl_rows.operations(None) == {}
