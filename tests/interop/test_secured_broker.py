"""Tools of Kafka's own against a broker of ``running_secured_broker``: they take the files that it wrote."""

from pathlib import Path

import pytest

from pkafka.testing import running_secured_broker
from tests.interop.conftest import JavaTool

TOPICS = "org.apache.kafka.tools.TopicCommand"
ACLS = "kafka.admin.AclCommand"
PRODUCER = "kafka.tools.ConsoleProducer"
ODD = 'p#a"ss=\\wörd:!'


@pytest.mark.parametrize(
    "security",
    ["sasl_ssl", *(pytest.param(each, marks=pytest.mark.nightly) for each in ("ssl", "sasl_plaintext"))],
)
def test_java_takes_the_files(java_tool: JavaTool, tmp_path: Path, security: str) -> None:
    passwords = None if security == "ssl" else {"alice": ODD}
    with running_secured_broker(tmp_path, security=security, passwords=passwords) as broker:
        server = ("--bootstrap-server", broker.bootstrap)

        def run(tool: str, user: str, *words: str) -> tuple[int, str]:
            done = java_tool(tool, *server, "--command-config", broker.client_properties(user), *words)
            return done.returncode, done.stdout + done.stderr

        def write() -> str:
            flags = ("--topic", "t", "--producer.config", broker.client_properties("alice"))
            done = java_tool(PRODUCER, *server, *flags, stdin="x\n", alone=True)
            return done.stdout + done.stderr

        status, said = run(TOPICS, "admin", "--create", "--topic", "t")
        assert status == 0, said
        assert "TopicAuthorizationException" in write()
        rule = ("--add", "--allow-principal", "User:alice", "--producer", "--topic", "t")
        status, said = run(ACLS, "admin", *rule)
        assert status == 0, said
        assert "Exception" not in write()
        assert run(TOPICS, "bob", "--list") == (0, "\n")
