"""Files of login modules: what Java's own reader takes from them, and what pkafka does."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pkafka.clients.admin import Admin
from pkafka.clients.errors import AuthenticationError
from pkafka.security.jaas import JaasError
from pkafka.security.jaas_files import read_sections
from pkafka.testing import running_broker
from tests.interop.kafka import running_kafka
from tests.interop.line_oracle import LineOracle, line_oracle
from tests.interop.secured_kafka import PACKAGE, PLAIN, login
from tests.interop.side_by_side import pk
from tests.sockets import free_port

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

MUCH = settings(deadline=None, max_examples=300, suppress_health_check=list(HealthCheck))
PARTS = st.sampled_from(
    [
        *[
            "A",
            "{",
            "}",
            ";",
            "};",
            "=",
            " ",
            "\n",
            "m.Module",
            "required",
            "OPTIONAL",
            "needed",
            "a",
            "b-c_$d",
            "true",
        ],
        *[
            '"x y"',
            '"1"',
            '"${/}"',
            '"${user.home}"',
            '"${nobody.knows}"',
            "1",
            "// c\n",
            "/* c */",
            '"',
            '"A"',
            "#",
        ],
        *['A { m.Module required a="b"; };', "m.Module required;", 'a="b"', "B { };", "A { };"],
    ]
)
TEXTS = st.lists(PARTS, max_size=14).map(" ".join)


SERVERS: Final = f"""
KafkaServer {{
  {PACKAGE}.plain.PlainLoginModule required user_alice="of-alice" user_bob="bobs";
  {PACKAGE}.scram.ScramLoginModule required;
}};
own.KafkaServer {{ {PACKAGE}.plain.PlainLoginModule required user_carol="carols"; }};
KafkaClient {{ {PACKAGE}.plain.PlainLoginModule required username="alice" password="of-alice"; }};
"""
LISTENERS: Final = ("shared", "own", "keyed")


@pytest.fixture(scope="module")
def sides(
    kafka_classpath: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sequence[Mapping[str, int]]]:
    """The ports of the listeners of Apache Kafka and of pkafka, which have read the same file."""
    directory = tmp_path_factory.mktemp("jaas")
    file = directory / "jaas.conf"
    file.write_text(SERVERS)
    flag = f"-Djava.security.auth.login.config={file}"
    ports = [{name: free_port() for name in LISTENERS} for _ in range(2)]
    with (
        pytest.MonkeyPatch.context() as patch,
        running_kafka(directory / "kafka", overrides=broker_settings(ports[0]), jvm_flags=(flag,)),
    ):
        patch.setenv("KAFKA_OPTS", flag)
        with running_broker(directory / "pkafka", broker_settings(ports[1])):
            yield ports


def broker_settings(ports: Mapping[str, int]) -> dict[str, object]:
    """A listener with a section of its own, one with a key of its own, one with neither."""
    names = ",".join(f"{name.upper()}://127.0.0.1:{port}" for name, port in ports.items())
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:0,{names}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,"
        + ",".join(f"{name.upper()}:SASL_PLAINTEXT" for name in ports),
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.keyed.plain.sasl.jaas.config": f'{PLAIN} user_dave="daves";',
        "offsets.topic.replication.factor": 1,
    }


@pytest.mark.parametrize(
    ("listener", "user", "password"),
    [
        (listener, user, password)
        for listener in LISTENERS
        for user, password in {"alice": "of-alice", "carol": "carols", "dave": "daves"}.items()
    ],
)
def test_brokers_let_in_the_same_users(
    sides: Sequence[Mapping[str, int]], listener: str, user: str, password: str
) -> None:
    expected = {"shared": "alice", "own": "carol", "keyed": "dave"}[listener] == user
    for ports in sides:
        keys = {"bootstrap.servers": f"127.0.0.1:{ports[listener]}", "security.protocol": "SASL_PLAINTEXT"}
        with Admin({**keys, **login("PLAIN", user, password)}) as client:
            if expected:
                assert client.describe_cluster().brokers
            else:
                with pytest.raises(AuthenticationError):
                    client.describe_cluster()


def test_a_command_logs_in_by_the_files_section(sides: Sequence[Mapping[str, int]], tmp_path: Path) -> None:
    keys = tmp_path / "client.properties"
    keys.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n")
    for ports in sides:
        server = ("--bootstrap-server", f"127.0.0.1:{ports['shared']}", "--command-config", keys)
        pk("topics", *server, "--list")


@pytest.fixture(scope="module")
def java(kafka_classpath: str) -> Iterator[LineOracle]:
    with line_oracle(kafka_classpath, "JaasFileOracle") as oracle:
        yield oracle


@MUCH
@given(text=TEXTS)
def test_files_are_read_as_by_java(java: LineOracle, text: str) -> None:
    answer = java.ask("=" + base64.b64encode(text.encode()).decode())
    theirs: object = None
    if answer == "-":
        theirs = "no such section"
    elif answer != "!":
        theirs = [_module(words) for words in answer[1:].split(",") if words]
    ours: object
    try:
        sections = read_sections(text, {})
    except JaasError:
        ours = None
    else:
        found = sections.get("A")
        ours = (
            "no such section" if found is None else [(each.class_name, dict(each.options)) for each in found]
        )
    assert ours == theirs, text


def _module(words: str) -> tuple[str, dict[str, str]]:
    name, *pairs = [base64.b64decode(each[1:]).decode() for each in words.split(" ")]
    return name, dict(zip(pairs[::2], pairs[1::2], strict=True))
