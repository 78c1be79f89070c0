"""What commands print of groups."""

import json
from collections.abc import Callable

from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.clients.consumer import Consumer
from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.model import TopicPartition
from tests.e2e.json_cases.case import At, Cases
from tests.json_schemas import check
from tests.talk import wait_for

CASES = Cases()


def group_of(at: At, topic: str) -> str:
    """A group without members that has read one record."""
    group = at.new("group")
    offsets = {TopicPartition(topic, 0): OffsetAndMetadata(1)}
    outcomes = at.talk.admin.alter_group_offsets(group, offsets)
    assert list(outcomes.values()) == [None]
    return group


def while_reading(at: At, group: str, topic: str, look: Callable[[], None]) -> None:
    """Look at a group while it has a member."""
    with Consumer({"bootstrap.servers": at.broker.bootstrap, "group.id": group}) as consumer:
        consumer.subscribe([topic])
        wait_for(lambda: consumer.poll(50) is not None and consumer.assignment(), what="partitions")
        look()


@CASES.of("pk-consumer-groups.list")
def groups_are_listed(at: At) -> None:
    group = group_of(at, at.topic(b"a"))
    assert group in {row["group"] for row in at.every_form(["--list"])["groups"]}
    assert at.document("--list", "--state", "Dead") == {"groups": [], "failures": []}


@CASES.of("pk-consumer-groups.describe-offsets")
def lag_is_told(at: At) -> None:
    topic = at.topic(b"a", b"b", partitions=2)
    group = group_of(at, topic)
    words = ["--describe", "--group", group]
    assert at.every_form(words)["groups"][0]["partitions"][0]["lag"] == 1
    found = at.every_form([*words, "--group", at.new()], ExitStatus.FAILURE)
    assert [row["error"] and row["error"]["name"] for row in found["groups"]] == [None, "GROUP_ID_NOT_FOUND"]
    assert len(found["failures"]) == 1
    assert len(at.document(*words, "--max-lag", "0", status=ExitStatus.FAILURE)["failures"]) == 1
    assert at.document("--describe", "--group", group, "--only-lagging")["groups"][0]["partitions"]
    while_reading(at, group, topic, lambda: at.every_form(words))
    endless = at.run("--output", "json", "--describe", "--group", group, "--watch", status=ExitStatus.USAGE)
    check(json.loads(endless), "error")


@CASES.of("pk-consumer-groups.describe-members", "pk-consumer-groups.describe-state")
def members_and_states_are_told(at: At) -> None:
    topic = at.topic(b"a")
    group = group_of(at, topic)
    words = ["--describe", "--group", group, f"--{at.name.rpartition('-')[2]}"]
    at.document(*words)
    at.document(*words, "--group", at.new(), status=ExitStatus.FAILURE)
    while_reading(at, group, topic, lambda: at.every_form(words))


@CASES.of("pk-consumer-groups.delete")
def groups_are_deleted(at: At) -> None:
    topic = at.topic(b"a")
    at.every_form(lambda: ["--delete", "--group", group_of(at, topic)])
    found = at.every_form(lambda: ["--delete", "--group", at.new()], ExitStatus.FAILURE)
    assert found["groups"][0]["error"]["name"] == "GROUP_ID_NOT_FOUND"
    assert found["failures"]
    group = group_of(at, topic)
    assert at.every_form(["--delete", "--group", group, "--dry-run"])["dry_run"] is True


@CASES.of("pk-consumer-groups.reset-offsets")
def offsets_are_reset(at: At) -> None:
    topic = at.topic(b"a", b"b")
    group = group_of(at, topic)
    words = ["--reset-offsets", "--group", group, "--topic", topic, "--to-latest"]
    for mode in ("--dry-run", "--execute"):
        found = at.every_form([*words, mode])
        assert found["dry_run"] is (mode == "--dry-run")

    def refused() -> None:
        found = at.document(*words, "--execute", status=ExitStatus.FAILURE)
        assert (found["offsets"], len(found["failures"])) == ([], 1)

    while_reading(at, group, topic, refused)
    at.error(
        "--reset-offsets", "--group", group, "--topic", topic, "--to-datetime", "x", status=ExitStatus.USAGE
    )


@CASES.of("pk-consumer-groups.delete-offsets")
def offsets_are_deleted(at: At) -> None:
    topic = at.topic(b"a")
    at.every_form(lambda: ["--delete-offsets", "--group", group_of(at, topic), "--topic", topic])
    missing = ["--topic", at.new(), "--topic", topic]
    found = at.every_form(
        lambda: ["--delete-offsets", "--group", group_of(at, topic), *missing], ExitStatus.FAILURE
    )
    assert {row["partition"] for row in found["offsets"]} == {None, 0}
    words = ["--delete-offsets", "--group", group_of(at, topic), "--topic", topic, "--dry-run"]
    assert at.every_form(words)["dry_run"] is True
