"""The page of metrics of a running broker behind HTTPS and a login, and the commands that read it."""

import contextlib
import json
import re
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from pkafka.errors import PkafkaError
from pkafka.testing import Broker, BrokerStartError, running_broker
from tests.certificates import Authority
from tests.sockets import free_port
from tests.talk import talking, wait_for

HOST = "127.0.0.1"
COUNTS = "kafka.server:type=socket-server-metrics,listener={},*"


class Guarded(NamedTuple):
    """A broker, its page, and a file for those who may read it."""

    broker: Broker
    url: str
    reader: Path
    tls: int

    def beans(self, pattern: str) -> Sequence[dict[str, object]]:
        done = run(
            "metrics", "--url", self.url, "--metrics-config", self.reader, "--object-name", pattern, *JSON
        )
        assert done.returncode == 0, done
        found: list[dict[str, object]] = [each["attributes"] for each in json.loads(done.stdout)["beans"]]
        return found

    def total(self, listener: str, name: str) -> float:
        return sum(float(str(bean[name])) for bean in self.beans(COUNTS.format(listener)) if name in bean)


JSON = ("--output", "json")


def run(command: str, *words: object, main: str = "main") -> "subprocess.CompletedProcess[str]":
    program = f"from pkafka.cli.{command} import {main}; {main}()"
    words_given = [sys.executable, "-c", program, *map(str, words)]
    return subprocess.run(words_given, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    directory = tmp_path_factory.mktemp("guarded")
    authority = Authority()
    signed = authority.signed("broker", [HOST, "localhost"])
    store, users, reader = (directory / name for name in ("broker.pem", "users", "reader.properties"))
    store.write_bytes(signed.key_pem() + signed.chain_pem)
    (directory / "ca.pem").write_bytes(authority.pem)
    users.write_text("ops:secret\n")
    users.chmod(0o600)
    reader.write_text(
        f"ssl.truststore.type=PEM\nssl.truststore.location={directory / 'ca.pem'}\n"
        "basic.auth.user.info=ops:secret\n"
    )
    plain, tls, page = free_port(), free_port(), free_port()
    settings = {
        "listeners": f"PLAINTEXT://{HOST}:{plain},SSL://{HOST}:{tls}",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": store,
        "pkafka.metrics.port": page,
        "pkafka.metrics.ssl.keystore.type": "PEM",
        "pkafka.metrics.ssl.keystore.location": store,
        "pkafka.metrics.basic.auth.file": users,
        "pkafka.workers": 2,
    }
    with running_broker(directory / "broker", settings) as broker:
        yield Guarded(broker, f"https://localhost:{page}", reader, tls)


def test_commands_read_a_guarded_page(guarded: Guarded) -> None:
    assert f"Metrics on {guarded.url}/metrics" in guarded.broker.log_file.read_text()
    [bean] = guarded.beans("kafka.server:type=KafkaServer,name=BrokerState")
    assert bean == {"Value": 3}
    jmx = run(
        *("metrics", "--jmx-url", guarded.url, "--metrics-config", guarded.reader, "--one-time"),
        *("--object-name", "kafka.server:type=KafkaServer,name=BrokerState"),
        main="jmx_main",
    )
    assert jmx.returncode == 0, jmx
    assert jmx.stdout.splitlines()[1].endswith(",3")
    refused = run("metrics", "--url", guarded.url, "--one-time")
    assert refused.returncode == 3
    assert "certificate verify failed" in refused.stderr


def test_pk_top_finds_guarded_pages_by_the_brokers_settings(guarded: Guarded) -> None:
    words = ("--bootstrap-server", guarded.broker.bootstrap, "--interval", "0.05", *JSON)
    with talking(guarded.broker.bootstrap) as talk:
        talk.create("seen")
        talk.send("seen", b"x")

    def bytes_out(*more: object) -> object:
        done = run("top", *words, *more)
        assert done.returncode == 0, done
        [look] = json.loads(done.stdout)["looks"]
        return look["brokers"][0]["bytes_out_per_s"]

    assert bytes_out("--metrics-config", guarded.reader) is not None
    assert bytes_out() is None


def test_handshakes_count_as_authentications(guarded: Guarded) -> None:
    assert guarded.total("SSL", "successful-authentication-total") == 0
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with (
        socket.create_connection((HOST, guarded.tls), 60) as client,
        pytest.raises(ssl.SSLCertVerificationError),
    ):
        context.wrap_socket(client, server_hostname=HOST)
    with socket.create_connection((HOST, guarded.tls), 60) as client:
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""
    wait_for(lambda: guarded.total("SSL", "failed-authentication-total") == 2)
    with socket.create_connection((HOST, guarded.tls), 60):
        pass  # one that is only gone has not failed
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection((HOST, guarded.tls), 60) as client,
        context.wrap_socket(client, server_hostname=HOST),
    ):
        wait_for(lambda: guarded.total("SSL", "successful-authentication-total") == 1)
    assert guarded.total("SSL", "failed-authentication-total") == 2


def test_a_broker_does_not_start_with_half_of_a_guard(tmp_path: Path) -> None:
    settings = {"pkafka.metrics.port": 0, "pkafka.metrics.basic.auth.file": tmp_path / "none"}
    with pytest.raises((BrokerStartError, PkafkaError)) as refused, running_broker(tmp_path / "b", settings):
        pass
    assert re.search(r"pkafka\.metrics\.basic\.auth\.file.*cannot be read", str(refused.value))
