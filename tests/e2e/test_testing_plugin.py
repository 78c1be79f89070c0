"""The fixtures that other projects use: ``pkafka_broker`` and ``pkafka_secured_broker``."""

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pkafka.clients.admin import Admin
from pkafka.testing import Broker, BrokerStartError, running_broker, running_secured_broker
from pkafka.tools.servers.local_broker import hold_port
from tests.forked_brokers import ForkedBroker

pytest_plugins = ["pytester"]


def test_it_is_cheap_to_import() -> None:
    script = "import sys, pytest; before = set(sys.modules); import pkafka.testing; print(set(sys.modules) - before)"
    loaded = eval(subprocess.check_output([sys.executable, "-c", script], text=True, timeout=60))
    assert loaded <= {
        "pkafka",
        "pkafka.testing",
        "pkafka.tools",
        "pkafka.tools.servers",
        "pkafka.tools.servers.local_broker",
    }


def test_any_test_gets_a_broker(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest, socket

        @pytest.fixture(scope="session")
        def pkafka_broker_overrides():
            return {"num.partitions": 3, "pkafka.workers": 1}

        def test_it_listens(pkafka_broker):
            host, port = pkafka_broker.bootstrap.split(":")
            socket.create_connection((host, int(port)), timeout=60).close()
            assert pkafka_broker.log_dir.is_dir()
            assert pkafka_broker.pid > 0
        """
    )
    pytester.runpytest_subprocess("-p", "no:randomly").assert_outcomes(passed=1)


def test_any_test_gets_a_secured_broker(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import confluent_kafka, pytest
        from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, AdminClient, NewTopic
        from confluent_kafka.admin import ResourcePatternType, ResourceType
        from pkafka.clients.admin import Admin

        def test_alice_is_let_in_by_a_rule(pkafka_secured_broker):
            broker = pkafka_secured_broker
            assert broker.users == ("admin", "alice", "bob")
            admin = AdminClient(broker.client_config())
            admin.create_topics([NewTopic("t", 1)])["t"].result(60)
            assert isinstance(write(broker, "alice"), confluent_kafka.KafkaError)
            rule = AclBinding(
                ResourceType.TOPIC, "t", ResourcePatternType.LITERAL, "User:alice", "*",
                AclOperation.WRITE, AclPermissionType.ALLOW,
            )
            admin.create_acls([rule])[rule].result(60)
            assert write(broker, "alice") is None
            assert isinstance(write(broker, "bob"), confluent_kafka.KafkaError)

        def write(broker, user):
            told = []
            config = {**broker.client_config(user), "allow.auto.create.topics": False}
            producer = confluent_kafka.Producer({**config, "message.timeout.ms": 60_000})
            producer.produce("t", b"x", on_delivery=lambda error, _: told.append(error))
            assert producer.flush(90) == 0
            return told[0]

        def test_clients_of_pkafka_take_the_same(pkafka_secured_broker):
            with Admin(pkafka_secured_broker.client_config("bob")) as admin:
                assert admin.describe_cluster().brokers
            text = pkafka_secured_broker.client_properties("bob").read_text()
            assert "bootstrap.servers=" + pkafka_secured_broker.bootstrap in text.replace("\\\\", "")
        """
    )
    pytester.runpytest_subprocess("-p", "no:randomly").assert_outcomes(passed=2)


@pytest.mark.parametrize("security", ["ssl", "sasl_plaintext"])
def test_a_secured_broker_for_a_while_has_the_same_users_after_a_restart(
    tmp_path: Path, security: str
) -> None:
    passwords = {"carol": "of carol"} if security != "ssl" else None
    with running_secured_broker(tmp_path, security=security, passwords=passwords) as broker:
        user = broker.users[-1]
        for _ in range(2):
            with Admin(broker.client_config(user)) as admin:
                assert admin.describe_cluster().brokers
            broker.restart()
    assert broker.client_properties(user).is_file()


def test_it_stops_dies_and_starts_on_the_same_port(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        address, first = broker.bootstrap, broker.pid
        broker.restart()
        assert broker.bootstrap == address
        assert broker.pid != first
        broker.kill()
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(
                (broker.host, broker.port)
            )  # so the kernel does not choose it for another process either
        broker.start()
        assert broker.stop() == 0
        broker.kill()  # of one that is stopped: nothing happens


def test_nobody_is_given_its_port_while_it_is_stopped(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        for end in (broker.stop, broker.kill):
            end()
            with socket.socket() as other, pytest.raises(OSError, match="in use"):
                other.bind((broker.host, broker.port))
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((broker.host, broker.port))
            broker.start()


def test_a_port_is_kept_that_is_closed_a_moment_after_the_end_was_seen() -> None:
    class Owner:
        pass

    owner = Owner()
    server = socket.create_server(("127.0.0.1", 0))
    host, port = server.getsockname()
    closing = threading.Timer(0.05, server.close)
    closing.start()
    let_go = hold_port(owner, host, port)
    closing.join()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((host, port))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, port))
    let_go()


def test_a_kill_of_a_broker_whose_end_was_not_told_yet_is_no_error() -> None:
    """The process that forks waits for a broker first, and tells of its end then: a kill may come in between."""
    over = subprocess.Popen([sys.executable, "-c", "pass"])
    over.wait()
    broker = ForkedBroker.__new__(ForkedBroker)
    broker.pid, broker.returncode = over.pid, None
    broker._news, told = os.pipe()
    try:
        broker.kill()
        os.write(told, b"\0\0\0\0")
        assert broker.wait(10) == 0
    finally:
        os.close(told)


def test_what_it_cannot_start_with_is_said(tmp_path: Path) -> None:
    broker = Broker(tmp_path, {"num.partitions": "many"})
    with pytest.raises(BrokerStartError, match="num\\.partitions"):
        broker.start()
