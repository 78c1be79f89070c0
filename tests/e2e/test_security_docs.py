"""The lines of docs/security.md, "From a plain broker to a locked one", do what they say."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from pkafka.clients.admin import Admin
from pkafka.clients.admin.topic_results import NewTopic
from pkafka.java.properties import parse_properties
from pkafka.testing import Broker, running_secured_broker
from tests.sockets import free_port

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "security.md"
HEADING: Final = "## From a plain broker to a locked one\n"
WAYS: Final = ("SCRAM", "PLAIN", "TLS alone")
_BLOCK: Final = re.compile(r"^```(console|properties)\n(.*?)^```$", re.M | re.S)


def section() -> str:
    return DOCUMENT.read_text(encoding="utf-8").partition(HEADING)[2].partition("\n## ")[0]


def blocks(text: str, kind: str) -> list[str]:
    return [body for found, body in _BLOCK.findall(text) if found == kind]


def script(console: str) -> str:
    """What is typed: lines behind the prompt."""
    return "".join(line[2:] for line in console.splitlines(keepends=True) if line[:2] in ("$ ", "> "))


@pytest.fixture
def ports() -> dict[str, str]:
    """In place of those in the document."""
    return {"9092": str(free_port()), "9093": str(free_port())}


@pytest.mark.parametrize("way", WAYS)
def test_the_lines_work_as_written(way: str, ports: dict[str, str], tmp_path: Path) -> None:
    begin, *parts = section().split("\n### ")
    own = next(part for part in parts if part.partition("\n")[0].endswith(f"({way})"))
    scram = next(part for part in parts if "(SCRAM)" in part)
    *preparation, commands = blocks(scram, "console")
    server, client = (there(text, ports) for text in blocks(own, "properties"))

    def run(console: str) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script(there(console, ports))],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=200,
            env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(blocks(begin, "console")[0])
    (tmp_path / "admin.properties").write_text(client)
    (tmp_path / "alice.properties").write_text(client.replace("admin", "alice"))
    plain = Broker(tmp_path, {"listeners": f"PLAINTEXT://localhost:{ports['9092']}", "pkafka.workers": 1})
    if way == "SCRAM":
        plain.start()
        try:
            for console in preparation:
                run(console)
        finally:
            plain.stop()
    locked = Broker(tmp_path, {"pkafka.workers": 1, **parse_properties(server)})
    locked.start()
    try:
        said = run(commands)
        assert "failed" not in said
        assert "not reached" not in said
        alice = locked_out(tmp_path, ports["9093"])
        assert alice.returncode == 4, alice.stderr
    finally:
        locked.stop()
    logged = locked.log_file.read_text()
    assert "of-admin" not in logged
    assert "of-alice" not in logged


def test_clients_of_the_plain_listener_stay_until_they_have_moved(tmp_path: Path) -> None:
    port = free_port()
    both = {
        "listeners": f"SASL_SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:{port}",
        "super.users": "User:admin;User:broker;User:ANONYMOUS",
        "pkafka.workers": 1,
    }
    with running_secured_broker(tmp_path, both) as broker:
        with Admin({"bootstrap.servers": f"127.0.0.1:{port}"}) as plain:
            made = plain.create_topics([NewTopic("t", partitions=1)])["t"]
            assert not isinstance(made, Exception)
        with Admin(broker.client_config("admin")) as admin:
            assert [each.name for each in admin.list_topics()] == ["t"]
        with Admin(broker.client_config("alice")) as alice:
            assert alice.list_topics() == []


def locked_out(folder: Path, port: str) -> "subprocess.CompletedProcess[str]":
    """What alice hears who would make a topic."""
    program = "from pkafka.cli.topics import main; main()"
    command = [sys.executable, "-c", program, "--bootstrap-server", f"localhost:{port}"]
    flags = ["--command-config", "alice.properties", "--create", "--topic", "hers"]
    return subprocess.run(
        [*command, *flags], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


def there(text: str, ports: dict[str, str]) -> str:
    # In one go: a port that was drawn may have the other one's digits in it.
    return re.sub("|".join(ports), lambda found: ports[found[0]], text)
