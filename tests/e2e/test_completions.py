"""What shells offer: names of a real cluster, quickly or from memory, and files where shells look for them."""

import json
import os
import socket
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pkafka.cli import completions
from pkafka.cli.completions import live_names
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.testing import Broker
from tests.open_transactions import transactional_producer
from tests.sockets import free_port
from tests.talk import talking, wait_for

BIN = Path(sys.executable).parent


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("PK_BOOTSTRAP_SERVER", "PK_PROFILE", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def topic(pkafka_broker: Broker) -> str:
    name = f"completed-{uuid.uuid4().hex[:8]}"
    with talking(pkafka_broker.bootstrap) as talk:
        talk.create(name)
    return name


def test_names_are_those_of_the_cluster_that_the_line_means(
    pkafka_broker: Broker, topic: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_names, "_DEADLINE_S", 60.0)
    servers = pkafka_broker.bootstrap
    assert topic in live_names.names("topics", ["pk-topics", "--bootstrap-server", servers, "--topic", ""])
    assert live_names.names("brokers", ["pk-log-dirs", f"--bootstrap-server={servers}"]) == ["0"]
    assert live_names.names("topics", ["pk-topics", "--topic", ""]) == []
    (home / ".pkafka.toml").write_text(f'[profiles.here]\nbootstrap.servers = "{servers}"\n')
    assert topic in live_names.names("topics", ["pk-topics", "--profile", "here"])
    assert live_names.names("profiles", []) == ["here"]
    assert live_names.names("topics", ["pk-topics", "--profile", "nowhere"]) == []
    assert "retention.ms" in live_names.names("topic-keys", [])
    assert "log.dirs" in live_names.names("broker-keys", [])
    assert "linger.ms" in live_names.names("producer-keys", [])
    assert "max.poll.records" in live_names.names("consumer-keys", [])


def test_transactional_ids_are_offered(
    pkafka_broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_names, "_DEADLINE_S", 60.0)
    line = [
        "pk-transactions",
        "--bootstrap-server",
        pkafka_broker.bootstrap,
        "describe",
        "--transactional-id",
        "",
    ]
    with transactional_producer(pkafka_broker.bootstrap, f"id-of-{topic}"):
        assert f"id-of-{topic}" in live_names.names("transactional-ids", line)


def test_settings_are_those_of_what_the_line_changes(
    pkafka_broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_names, "_DEADLINE_S", 60.0)
    line = ["pk-configs", "--bootstrap-server", pkafka_broker.bootstrap, "--alter"]
    of_topics = live_names.names("config-keys", [*line, "--topic", topic])
    assert "retention.ms" in of_topics
    assert "log.retention.ms" not in of_topics
    for words in (["--broker", "0"], ["--broker-defaults"], ["--entity-type", "brokers"]):
        of_brokers = live_names.names("config-keys", [*line, *words])
        assert "log.retention.ms" in of_brokers
        assert "log.dirs" not in of_brokers  # nobody can change it while the broker runs
    assert live_names.names("config-keys", [*line, "--entity-type=broker-loggers"]) == []
    assert topic in live_names.names("entity-names", [*line, "--entity-type=topics"])
    assert live_names.names("entity-names", [*line, "--entity-type", "brokers"]) == ["0"]
    assert live_names.names("entity-names", line) == []
    of_users = live_names.names("config-keys", [*line, "--user", "u"])
    assert {"producer_byte_rate", "SCRAM-SHA-256"} <= set(of_users)
    pair = ["--entity-type", "users", "--entity-name", "u", "--entity-type", "clients"]
    assert "SCRAM-SHA-256" not in live_names.names("config-keys", [*line, *pair])
    assert live_names.names("config-keys", [*line, "--ip-defaults"]) == ["connection_creation_rate"]


def test_what_was_found_is_kept_for_a_moment_and_stands_in_for_a_broker_that_is_away(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = f"127.0.0.1:{free_port()}"
    line = ["pk-topics", "--bootstrap-server", servers]
    assert live_names.names("topics", line) == []
    cache = home / "cache" / "pkafka" / "names.json"
    cache.parent.mkdir(parents=True)
    entry = {"at": time.time(), "names": ["kept"]}
    cache.write_text(json.dumps({servers: {"topics": entry}}))
    assert live_names.names("topics", line) == ["kept"]
    monkeypatch.setattr(live_names, "_FRESH_S", 0.0)
    assert live_names.names("topics", line) == ["kept"]
    cache.write_text("{damaged")
    assert live_names.names("topics", line) == []


def test_nobody_waits_for_a_broker_that_says_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        began = time.monotonic()
        assert live_names.names("topics", ["pk-topics", "--bootstrap-server", f"{host}:{port}"]) == []
        assert time.monotonic() - began < 25  # and not the half minute that clients have for a request


def test_names_can_be_asked_for_in_any_thread(
    pkafka_broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No signal ends the question: it would leave open what nobody holds yet."""
    monkeypatch.setattr(live_names, "_DEADLINE_S", 60.0)
    line = ["pk-topics", "--bootstrap-server", pkafka_broker.bootstrap, "--topic", ""]
    with ThreadPoolExecutor(1) as thread:
        assert topic in thread.submit(live_names.names, "topics", line).result(60)


def test_bash_completes_topics_and_keys(pkafka_broker: Broker, topic: str, home: Path) -> None:
    assert completions.main.run(["install", "--shell", "bash"]) == ExitStatus.OK
    script = home / ".local/share/bash-completion/completions/pk-topics"
    environment = {
        **os.environ,
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "PK_BOOTSTRAP_SERVER": pkafka_broker.bootstrap,
    }

    def offered(*words: str) -> list[str]:
        line = " ".join(f"'{word}'" for word in ("pk-topics", *words))
        text = f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words)}; _pk_topics; echo ${{COMPREPLY[@]}}"
        done = subprocess.run(
            ["bash", "-c", text], capture_output=True, text=True, timeout=60, check=True, env=environment
        )
        return done.stdout.split()

    # The deadline is short on purpose, and a busy machine may need a second try.
    deadline = time.monotonic() + 60
    while topic not in offered("--describe", "--topic", topic[:14]):
        assert time.monotonic() < deadline
    assert offered("--create", "--config", "retention.m") == ["retention.ms="]


def test_bash_completes_words_that_it_breaks(pkafka_broker: Broker, topic: str, home: Path) -> None:
    """Both = and : break words: what is typed after them is a word of its own, and a server is three."""
    assert completions.main.run(["install", "--shell", "bash"]) == ExitStatus.OK
    script = home / ".local/share/bash-completion/completions/pk-topics"
    host, _, port = pkafka_broker.bootstrap.partition(":")
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}

    def offered(begun: str) -> str:
        line = f"pk-topics --bootstrap-server {host}:{port} --topic={begun}"
        words = [
            "pk-topics",
            "--bootstrap-server",
            host,
            ":",
            port,
            "--topic",
            "=",
            *([begun] if begun else []),
        ]
        text = (
            f"source {script}; COMP_LINE='{line}'; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1};"
            " _pk_topics; echo ${COMPREPLY[@]}"
        )
        done = subprocess.run(
            ["bash", "-c", text], capture_output=True, text=True, timeout=60, check=True, env=environment
        )
        return done.stdout

    # The deadline is short on purpose, and a busy machine may need another try.
    wait_for(lambda: topic in offered(topic[:14]).split())
    wait_for(lambda: topic in offered("").split())


@pytest.mark.parametrize(
    ("shell", "file"),
    [
        ("bash", ".local/share/bash-completion/completions/pk-topics"),
        ("zsh", ".local/share/zsh/site-functions/_pk-topics"),
        ("fish", ".config/fish/completions/pk-topics.fish"),
    ],
)
def test_completions_are_installed_and_removed(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, shell: str, file: str
) -> None:
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    assert completions.main.run(["install", "--dry-run"]) == ExitStatus.OK
    assert f"Would write {home / file}" in capsys.readouterr().out.splitlines()
    assert not (home / file).exists()
    assert completions.main.run(["install"]) == ExitStatus.OK
    said = capsys.readouterr().out
    assert completions.main.run(["show", "pk-topics"]) == ExitStatus.OK
    assert (home / file).read_text() == capsys.readouterr().out
    assert str((home / file).parent) in said
    assert completions.main.run(["uninstall"]) == ExitStatus.OK
    assert not (home / file).exists()


def test_a_shell_that_is_not_known_has_to_be_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    assert completions.main.run(["install"]) == ExitStatus.USAGE
    assert "--shell is needed: one of bash, zsh, fish" in capsys.readouterr().err
    assert completions.main.run(["show", "pk-nothing", "--shell", "bash"]) == ExitStatus.USAGE
