"""What pk-acls prints."""

from collections.abc import Iterator
from contextlib import contextmanager

from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.testing import running_broker
from tests.e2e.json_cases.case import At, Cases, Words

CASES = Cases()


@contextmanager
def guarded() -> Iterator[Words]:
    """The flags of a broker that has an authorizer, at which the client of these tests may do everything."""
    settings = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS",
        "pkafka.workers": 1,
    }
    with running_broker(None, settings) as broker:
        yield ["--bootstrap-server", broker.bootstrap]


def rule(name: str, operation: str, *, kind: str = "LITERAL") -> dict[str, object]:
    return {
        "resource_type": "TOPIC",
        "resource_name": name,
        "pattern_type": kind,
        "principal": "User:alice",
        "host": "*",
        "operation": operation,
        "permission_type": "ALLOW",
    }


@CASES.of("pk-acls.add", "pk-acls.list", "pk-acls.remove")
def rules_are_added_listed_and_removed(at: At) -> None:
    with guarded() as brokers:
        alice = ["--allow-principal", "User:alice", "--operation", "Read", "--topic", "t"]
        action = at.name.partition(".")[2]
        at.run(*brokers, "--add", *alice)
        if action == "add":
            at.every_form([*brokers, "--add", *alice, "--dry-run"])
            assert at.every_form([*brokers, "--add", *alice])["acls"] == [rule("t", "READ")]
            at.error(*brokers, "--add", *alice[:-1], "a/b")
        elif action == "list":
            assert at.every_form([*brokers, "--list"])["acls"] == [rule("t", "READ")]
            assert at.document(*brokers, "--list", "--topic", at.new()) == {"acls": []}
            at.error("--list")  # the other broker has no authorizer
        else:
            at.every_form([*brokers, "--remove", "--topic", "t", "--dry-run"])
            found = at.document(*brokers, "--remove", *alice, "--force")
            assert found == {"acls": [rule("t", "READ")], "dry_run": False}
            assert at.document(*brokers, "--remove", *alice, "--force")["acls"] == []


@CASES.of("pk-acls.explain")
def decisions_are_explained(at: At) -> None:
    with guarded() as brokers:
        at.run(*brokers, "--add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", "t")
        words = ["--explain", "--principal", "User:alice", "--operation", "Describe", "--topic"]
        (found,) = at.every_form([*brokers, *words, "t"])["decisions"]
        assert (found["is_allowed"], found["rule_operation"], found["error"]) == (True, "READ", None)
        (found,) = at.document(*brokers, *words, "u")["decisions"]
        assert (found["is_allowed"], found["rule_operation"]) == (False, None)
        (found,) = at.document(*words, "t", status=ExitStatus.FAILURE)["decisions"]
        assert (found["is_allowed"], found["error"]["name"]) == (None, "SECURITY_DISABLED")
