"""pk-topics --wait, which scripts have in place of sleep."""

import threading
import uuid
from collections.abc import Iterator

import pytest

from pkafka.cli import topics
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.testing import Broker
from tests.talk import Talk, talking


@pytest.fixture
def talk(pkafka_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Talk]:
    monkeypatch.delenv("PK_COMPAT", raising=False)
    monkeypatch.setenv("PK_BOOTSTRAP_SERVER", pkafka_broker.bootstrap)
    with talking(pkafka_broker.bootstrap) as talk:
        yield talk


def named() -> str:
    return f"waited-{uuid.uuid4().hex[:8]}"


@pytest.mark.usefixtures("talk")
def test_the_life_of_a_topic_without_a_sleep(capsys: pytest.CaptureFixture[str]) -> None:
    name = named()
    made = ["--create", "--topic", name, "--partitions", "3", "--wait", "60s"]
    assert topics.main.run(made) == ExitStatus.OK
    assert capsys.readouterr().out == f"Created topic {name}.\n"
    assert (
        topics.main.run(["--alter", "--topic", name, "--partitions", "5", "--wait", "60s"]) == ExitStatus.OK
    )
    assert topics.main.run(["--describe", "--topic", name, "--wait", "60s"]) == ExitStatus.OK
    assert "PartitionCount: 5" in capsys.readouterr().out
    assert topics.main.run(["--delete", "--topic", name, "--wait", "60s"]) == ExitStatus.OK
    assert topics.main.run(["--list"]) == ExitStatus.OK
    assert name not in capsys.readouterr().out.splitlines()


def test_a_topic_that_comes_is_waited_for(talk: Talk, capsys: pytest.CaptureFixture[str]) -> None:
    name = named()
    later = threading.Timer(0.3, talk.create, [name])
    later.start()
    try:
        assert topics.main.run(["--describe", "--topic", name, "--wait", "60s"]) == ExitStatus.OK
    finally:
        later.join()
    assert f"Topic: {name}\t" in capsys.readouterr().out


@pytest.mark.usefixtures("talk")
def test_what_does_not_come_in_time_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    waiting = ["--describe", "--topic", named(), "--wait", "50ms"]
    assert topics.main.run(waiting) == ExitStatus.UNREACHABLE
    assert "there is no such topic, after 50ms" in capsys.readouterr().err
    assert topics.main.run([*waiting[:-1], "soon"]) == ExitStatus.USAGE
    assert "Cannot parse argument 'soon' of option wait" in capsys.readouterr().err
    assert topics.main.run(["--list", "--wait", "1s"]) == ExitStatus.USAGE
    assert topics.main.run(["--delete", "--topic", "x", "--dry-run", "--wait", "1s"]) == ExitStatus.USAGE
