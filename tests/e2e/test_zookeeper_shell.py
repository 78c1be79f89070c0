"""pk-zookeeper-shell as a process: over TLS, on a terminal, and on the store of a broker that runs."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from pkafka.testing import running_broker
from pkafka.tools.zookeeper.server import server_command, wait_until_serving
from tests.sockets import free_port
from tests.talk import wait_for
from tests.zookeeper import ZooKeeper

pytestmark = pytest.mark.e2e

SHELL = (sys.executable, "-m", "pkafka.cli.zookeeper_shell")
CONFIGS = (sys.executable, "-c", "from pkafka.cli.configs import main; main()")


def shell(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SHELL, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )


# -- the store of a broker ---------------------------------------------------------------------------------


def test_the_store_of_a_broker_that_runs_can_be_read_and_of_one_that_does_not_be_changed(
    tmp_path: Path,
) -> None:
    with running_broker(tmp_path / "broker", {"broker.id": 5}) as broker:
        place = broker.log_dir
        assert shell(place, "ls", "/brokers/ids").stdout.endswith("\n[5]\n")
        refused = shell(place, "create", "/x")
        assert refused.returncode == 1
        assert "belongs to a broker that runs: nodes can only be read" in refused.stderr
    made = shell("--data-dir", place, "create", "/x", "text")
    assert (made.returncode, made.stderr) == (0, "Created /x\n")
    assert shell(place, "get", "/x").stdout.endswith("\ntext\n")


# -- TLS ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["--wrong"],
        ["--wrong", "h:1", "ls", "/"],
        ["h:1", "--wrong", "ls", "/"],
        ["h:1", "ls", "--wrong", "/"],
    ],
)
def test_a_wrong_flag_is_wrong_use_and_no_server(words: list[str]) -> None:
    done = shell(*words)
    assert done.returncode == 2, done
    assert "--wrong" in done.stderr


def openssl(directory: Path, *words: str) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl: sudo apt-get install -y openssl")
    subprocess.run(
        ["openssl", *words],
        cwd=directory,
        check=True,
        capture_output=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )


def certificates(directory: Path) -> None:
    """``ca.pem``, another ``stranger.pem``, and ``server.pem`` and ``client.pem`` with key and certificate."""
    for name in ("ca", "stranger"):
        key = ("-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key")
        openssl(directory, "req", "-x509", "-days", "2", *key, "-out", f"{name}.pem", "-subj", f"/CN={name}")
    (directory / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    for name in ("server", "client"):
        key = ("-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key")
        openssl(directory, "req", *key, "-out", f"{name}.csr", "-subj", f"/CN={name}")
        by = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names")
        openssl(directory, "x509", "-req", "-in", f"{name}.csr", *by, "-out", f"{name}.crt")
        both = (directory / f"{name}.key").read_text() + (directory / f"{name}.crt").read_text()
        (directory / f"{name}.pem").write_text(both)


@pytest.fixture
def secure_zookeeper(zookeeper: ZooKeeper, tmp_path: Path) -> Iterator[str]:
    """A server of its own that wants to see a certificate; ``zookeeper`` only says that there can be one."""
    certificates(tmp_path)
    port, secure = free_port(), free_port()
    properties = tmp_path / "zookeeper.properties"
    properties.write_text(
        f"dataDir={tmp_path / 'data'}\nclientPort={port}\nclientPortAddress=127.0.0.1\ntickTime=500\n"
        f"secureClientPort={secure}\nsecureClientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\nssl.clientAuth=need\n"
        f"ssl.keyStore.location={tmp_path / 'server.pem'}\nssl.keyStore.type=PEM\n"
        f"ssl.trustStore.location={tmp_path / 'ca.pem'}\nssl.trustStore.type=PEM\n"
    )
    with (tmp_path / "zookeeper.log").open("wb") as log:
        process = subprocess.Popen(
            server_command(properties), stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
    try:
        wait_until_serving(process, port, timeout_s=120)
        yield f"127.0.0.1:{secure}"
    finally:
        process.kill()
        process.wait(60)


def tls_file(directory: Path, authority: str) -> Path:
    file = directory / f"{authority}.properties"
    file.write_text(
        "zookeeper.ssl.client.enable=true\n"
        "zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty\n"
        f"zookeeper.ssl.keystore.location={directory / 'client.pem'}\nzookeeper.ssl.keystore.type=PEM\n"
        f"zookeeper.ssl.truststore.location={directory / authority}.pem\nzookeeper.ssl.truststore.type=PEM\n"
    )
    return file


@pytest.mark.nightly  # a ZooKeeper of its own, like the next, which is shorter
def test_settings_without_a_broker_by_tls(secure_zookeeper: str, tmp_path: Path) -> None:
    def configs(authority: str, *words: str) -> subprocess.CompletedProcess[str]:
        tls = ("--zk-tls-config-file", str(tls_file(tmp_path, authority)), "--timeout", "5s")
        return subprocess.run(
            [*CONFIGS, "--zookeeper", secure_zookeeper, "--broker", "7", *tls, *words],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    altered = configs("ca", "--alter", "--add-config", "log.cleaner.threads=2")
    assert (altered.returncode, altered.stderr) == (0, "")
    assert altered.stdout.endswith("Completed updating config for entity: brokers '7'.\n")
    assert configs("ca", "--describe").stdout.endswith(
        "\nConfigs for brokers '7' are log.cleaner.threads=2\n"
    )
    assert configs("stranger", "--describe").returncode == 3


def test_tls(secure_zookeeper: str, tmp_path: Path) -> None:
    known = shell(secure_zookeeper, "-zk-tls-config-file", tls_file(tmp_path, "ca"), "whoami")
    assert "\nx509: CN=client\n" in known.stdout, known
    stranger = tls_file(tmp_path, "stranger")
    assert shell(secure_zookeeper, "-zk-tls-config-file", stranger, "whoami").returncode == 3
    assert shell(secure_zookeeper, "--timeout", "5s", "whoami").returncode == 3


# -- on a terminal -----------------------------------------------------------------------------------------


class Terminal:
    """The shell with somebody in front of it."""

    def __init__(self, *words: str) -> None:
        self._fd, theirs = pty.openpty()
        # The terminal must be the shell's own, or Ctrl-C would be a character like any other.
        program = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
        program += "from pkafka.cli.zookeeper_shell import main; main()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", program, *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._seen = b""

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._fd)

    def type(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def wait_until_it_waits(self) -> None:
        """As people do, who see what they have typed. The terminal throws away what nobody has read when Ctrl-C comes,
        and a signal between two looks for keys is noticed with the next key only (CPython's readline)."""
        wait_for(lambda: psutil.Process(self._process.pid).status() == psutil.STATUS_SLEEPING)

    def read_until(self, text: str) -> str:
        deadline = time.monotonic() + 90
        while text.encode() not in self._seen:
            ready, _, _ = select.select([self._fd], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, (text, self._seen)
            self._seen += os.read(self._fd, 4096)
        shown, self._seen = self._seen.decode(), b""
        return shown

    def end(self) -> int:
        self.type("\x04")
        return self._process.wait(60)


def test_a_terminal_has_a_prompt_a_history_and_completion(zookeeper: ZooKeeper) -> None:
    prompt = f"[zk: {zookeeper.connect}(CONNECTED) "
    with Terminal(zookeeper.connect) as terminal:
        greeting = terminal.read_until(f"{prompt}0] ")
        assert "Welcome to ZooKeeper!" in greeting
        assert "JLine" not in greeting
        terminal.type("stat /zoo\t/conf\t\n")
        assert "stat /zookeeper/config" in terminal.read_until(f"{prompt}1] ")
        terminal.type("gething")
        terminal.read_until("gething")
        terminal.wait_until_it_waits()
        terminal.type("\x03")  # Ctrl-C gives the line up, not the shell
        terminal.read_until(f"{prompt}1] ")
        terminal.type("\x1b[A\n")
        assert "dataLength" in terminal.read_until(f"{prompt}2] ")
        assert terminal.end() == 0
