"""What a person at a terminal is asked and told, and scripts are not."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.clients.admin import Admin
from pkafka.clients.consumer import Consumer
from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.model import TopicPartition
from pkafka.testing import Broker
from tests.talk import Talk

END_OF_INPUT = "\x04"


@pytest.fixture(scope="module")
def broker_settings() -> dict[str, object]:
    return {"pkafka.workers": 1, "auto.create.topics.enable": False}


@pytest.fixture
def admin(broker: Broker) -> Iterator[Admin]:
    with Admin({"bootstrap.servers": broker.bootstrap}) as admin:
        yield admin


@pytest.fixture
def groups(talk: Talk, topic: str, admin: Admin) -> Iterator[list[str]]:
    """Two groups without members, which are all that there are."""
    talk.create(topic)
    admin.delete_groups(_known(admin))  # what other tests have left
    names = [f"g-{topic}-{each}" for each in (1, 2)]
    for name in names:
        admin.alter_group_offsets(name, {TopicPartition(topic, 0): OffsetAndMetadata(0)})
    yield names
    admin.delete_groups(_known(admin))


def _known(admin: Admin) -> list[str]:
    return sorted(each.group_id for each in admin.list_groups().groups)


def _command(broker: Broker, module: str, *args: str) -> list[str]:
    program = f"from pkafka.cli.{module} import main; main()"
    return [sys.executable, "-c", program, *args, "--bootstrap-server", broker.bootstrap]


def _typed(command: list[str], answer: str) -> tuple[int, str]:
    """Run a command at a terminal of its own; its status, and all that is seen there."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "dumb", "COLUMNS": "200"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        os.write(ours, answer.encode())
        shown = b""
        with os.fdopen(ours, "rb", buffering=0) as screen:
            while True:
                try:
                    data = screen.read(65_536)
                except OSError:  # the other end is closed: Linux says EIO
                    break
                if not data:
                    break
                shown += data
    return process.returncode, shown.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("answer", ["n\n", "\n", END_OF_INPUT], ids=["no", "enter", "end"])
def test_all_groups_stay_unless_the_answer_is_yes(
    broker: Broker, groups: list[str], admin: Admin, answer: str
) -> None:
    command = _command(broker, "consumer_groups", "--delete", "--all-groups")
    status, shown = _typed(command, answer)
    assert status == ExitStatus.FAILURE
    assert f"--all-groups takes in {', '.join(groups)}\nDelete 2 group(s)? (y/n) [n]: " in shown
    assert shown.endswith("pk-consumer-groups: nothing was deleted (--group names one, --yes asks nothing)\n")
    assert _known(admin) == groups


def test_all_groups_go_when_the_answer_is_yes(broker: Broker, groups: list[str], admin: Admin) -> None:
    status, _ = _typed(_command(broker, "consumer_groups", "--delete", "--all-groups"), "y\n")
    assert status == ExitStatus.OK
    assert _known(admin) == []
    assert len(groups) == 2


@pytest.mark.parametrize(
    ("flags", "at_terminal"), [(["--yes"], True), ([], False)], ids=["told not to ask", "in a script"]
)
def test_all_groups_go_unasked(
    broker: Broker, groups: list[str], admin: Admin, flags: list[str], at_terminal: bool
) -> None:
    command = _command(broker, "consumer_groups", "--delete", "--all-groups", *flags)
    if at_terminal:
        status, shown = _typed(command, "")
    else:
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        status, shown = done.returncode, done.stdout + done.stderr
    assert (status, _known(admin)) == (ExitStatus.OK, [])
    assert "(y/n)" not in shown
    assert len(groups) == 2


def test_a_group_that_is_named_is_deleted_unasked(broker: Broker, groups: list[str], admin: Admin) -> None:
    status, shown = _typed(_command(broker, "consumer_groups", "--delete", "--group", groups[0]), "")
    assert (status, _known(admin)) == (ExitStatus.OK, groups[1:])
    assert "(y/n)" not in shown


def test_offsets_of_all_groups_are_changed_after_a_question(
    broker: Broker, talk: Talk, topic: str, groups: list[str]
) -> None:
    talk.send(topic, b"a", b"b")
    reset = ["--reset-offsets", "--all-groups", "--all-topics", "--to-latest"]
    status, shown = _typed(_command(broker, "consumer_groups", *reset, "--execute"), "n\n")
    assert status == ExitStatus.FAILURE
    assert "Change the offsets of 2 group(s)? (y/n)" in shown
    status, shown = _typed(_command(broker, "consumer_groups", *reset, "--dry-run"), "")
    assert (status, "(y/n)" in shown) == (ExitStatus.OK, False)


@pytest.mark.parametrize(("more", "answer"), [([], "y\n"), (["--yes"], "")], ids=["yes", "told not to ask"])
def test_records_are_deleted_after_a_question_that_says_which(
    broker: Broker, talk: Talk, topic: str, tmp_path: Path, more: list[str], answer: str
) -> None:
    talk.create(topic)
    talk.send(topic, b"a", b"b", b"c")
    file = tmp_path / "offsets.json"
    row = {"topic": topic, "partition": 0, "offset": 2}
    file.write_text(json.dumps({"partitions": [row], "version": 1}))
    command = _command(broker, "delete_records", "--offset-json-file", str(file))
    status, shown = _typed(command, "n\n")
    said = (
        f"Would delete the records of {topic}-0 from 0 up to 2 (end: 3).\nDelete these records? (y/n) [n]: "
    )
    assert (status, said in shown) == (ExitStatus.FAILURE, True), shown
    assert talk.ends(topic) == (0, 3)
    status, shown = _typed([*command, *more], answer)
    assert (status, talk.ends(topic)) == (ExitStatus.OK, (2, 3)), shown


def test_a_group_in_use_can_be_waited_for(broker: Broker, talk: Talk, topic: str) -> None:
    talk.create(topic)
    group = f"g-{topic}"
    with Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group}) as consumer:
        consumer.subscribe([topic])
        while not consumer.assignment():
            consumer.poll(timeout_ms=100)
        status, shown = _typed(_command(broker, "consumer_groups", "--delete", "--group", group), "")
        assert status == ExitStatus.FAILURE
        assert "--wait 1m waits until a group has no members.\n" in shown


@pytest.mark.parametrize(
    ("module", "args"),
    [
        ("configs", ["--describe", "--topic"]),
        ("topics", ["--describe", "--topic"]),
        ("get_offsets", ["--topic"]),
        ("console_consumer", ["--timeout-ms", "1000", "--topic"]),
        ("consumer_perf_test", ["--messages", "1", "--topic"]),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_topic_that_was_probably_meant(
    broker: Broker, talk: Talk, topic: str, module: str, args: list[str]
) -> None:
    talk.create(topic)
    status, shown = _typed(_command(broker, module, *args, topic[:-1]), "")
    assert status != ExitStatus.OK
    assert f"(did you mean {topic}?)\n" in shown


def test_a_group_that_was_probably_meant(broker: Broker, groups: list[str]) -> None:
    wrong = groups[0][1:]
    status, shown = _typed(_command(broker, "consumer_groups", "--describe", "--group", wrong), "")
    assert status == ExitStatus.FAILURE
    assert f"{wrong}: did you mean {groups[0]}?\n" in shown
