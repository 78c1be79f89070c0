"""Which handshakes count as authentications that succeeded or failed, beside the beans of an Apache Kafka."""

import contextlib
import re
import socket
import ssl
import urllib.request
from collections import Counter
from collections.abc import Callable, Mapping
from json import loads
from pathlib import Path
from typing import Final

import pytest

from pkafka.protocol.api import ApiKey
from pkafka.protocol.headers import encode_request
from pkafka.protocol.messages.api_versions import ApiVersionsRequest
from pkafka.testing import running_broker
from tests.certificates import Authority
from tests.interop.conftest import JavaTool
from tests.interop.kafka import running_kafka
from tests.sockets import free_port
from tests.talk import wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

NAMES: Final = ("TLS", "MTLS")
BEANS: Final = "kafka.server:type=socket-server-metrics,*"
ASK: Final = encode_request(ApiKey.API_VERSIONS, 0, 1, "c", ApiVersionsRequest())
COUNTED: Final = ("successful-authentication-total", "failed-authentication-total")

Counts = Mapping[tuple[str, str], float]
"""By listener and attribute."""


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = Authority()
    (tmp_path / "ca.pem").write_bytes(made.pem)
    for name, hosts in (("broker", ["127.0.0.1"]), ("client", [])):
        signed = made.signed(name, hosts)
        (tmp_path / f"{name}.pem").write_bytes(signed.key_pem() + signed.chain_pem)
    return made


def settings(directory: Path, ports: Mapping[str, int]) -> dict[str, object]:
    listeners = [f"{name}://127.0.0.1:{port}" for name, port in ports.items()]
    return {
        "listeners": ",".join(["PLAINTEXT://127.0.0.1:0", *listeners]),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TLS:SSL,MTLS:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": directory / "broker.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": directory / "ca.pem",
        "listener.name.mtls.ssl.client.auth": "required",
    }


def come(directory: Path, ports: Mapping[str, int]) -> None:
    """Clients of all kinds come to each listener, one after the other."""
    for port in ports.values():
        for own in (None, "client.pem"):
            knowing = ssl.create_default_context(cafile=str(directory / "ca.pem"))
            if own is not None:
                knowing.load_cert_chain(directory / own)
            shake_hands(port, knowing)
        shake_hands(port, ssl.create_default_context(cadata=Authority("Other").pem.decode()))
        with connected(port) as client:
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            read_to_the_end(client)
        with connected(port):
            pass  # only there, and gone


def shake_hands(port: int, context: ssl.SSLContext) -> None:
    with (
        connected(port) as client,
        contextlib.suppress(ssl.SSLError, ConnectionError),
        context.wrap_socket(client, server_hostname="127.0.0.1") as encrypted,
    ):
        # A refusal of TLS 1.3 comes after the handshake, in the place of an answer.
        encrypted.sendall(ASK)
        encrypted.recv(1)


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), 60)


def read_to_the_end(client: socket.socket) -> None:
    with contextlib.suppress(ConnectionError):
        while client.recv(1_000):
            pass


def settled(counts: Callable[[], Counts]) -> Counts:
    """The counts once all that came is counted."""
    wait_for(lambda: sum(counts().values()) >= 8, what="eight handshakes")
    return counts()


def of_kafka(java_tool: JavaTool, directory: Path) -> Counts:
    jmx, ports = free_port(), {name: free_port() for name in NAMES}
    flags = [
        f"-Dcom.sun.management.jmxremote.{key}"
        for key in (f"port={jmx}", "authenticate=false", "ssl=false", "host=127.0.0.1")
    ]
    flags.append("-Djava.rmi.server.hostname=127.0.0.1")

    def counts() -> Counts:
        done = java_tool(
            "org.apache.kafka.tools.JmxTool",
            *("--jmx-url", f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{jmx}/jmxrmi", "--one-time"),
            *("--report-format", "properties", "--object-name", BEANS, "--attributes", ",".join(COUNTED)),
        )
        assert done.returncode == 0, done
        found: Counter[tuple[str, str]] = Counter()
        for line in done.stdout.splitlines():
            row = re.fullmatch(r".*listener=(\w+),networkProcessor=\d+:([\w-]+)=(.+)", line)
            if row is not None and row[1] in NAMES:
                found[row[1], row[2]] += int(float(row[3]))
        return found

    with running_kafka(directory / "kafka", overrides=settings(directory, ports), jvm_flags=flags):
        come(directory, ports)
        return settled(counts)


def of_pkafka(directory: Path) -> Counts:
    page, ports = free_port(), {name: free_port() for name in NAMES}

    def counts() -> Counts:
        with urllib.request.urlopen(f"http://localhost:{page}/jmx?qry={BEANS}", timeout=60) as answer:
            beans = loads(answer.read())["beans"]
        found: Counter[tuple[str, str]] = Counter()
        for bean in beans:
            listener = bean["name"].partition("listener=")[2].partition(",")[0]
            for attribute in COUNTED:
                if listener in NAMES:
                    found[listener, attribute] += int(bean[attribute])
        return found

    more = {"pkafka.metrics.port": page, "pkafka.workers": 2}
    with running_broker(directory / "pkafka", {**settings(directory, ports), **more}):
        come(directory, ports)
        return settled(counts)


def test_handshakes_are_counted_as_by_kafka(
    authority: Authority, kafka_classpath: str, java_tool: JavaTool, tmp_path: Path
) -> None:
    theirs, ours = of_kafka(java_tool, tmp_path), of_pkafka(tmp_path)
    assert ours == theirs
    assert ours["TLS", COUNTED[0]] == 2
    assert ours["TLS", COUNTED[1]] == 2
