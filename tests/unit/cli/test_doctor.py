"""pk-doctor: what it needs to be told, and what it says of a broker that is not there or without security."""

import json

import pytest

from pkafka.cli.doctor import main
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from pkafka.protocol.messages.sasl_handshake import SaslHandshakeResponse
from tests.fakes.broker import FakeBroker
from tests.json_schemas import check
from tests.sockets import free_port


def findings(capsys: pytest.CaptureFixture[str], status: int, *words: str) -> list[dict[str, str]]:
    assert main.run(["--security", "--output", "json", *words]) == status
    document = json.loads(capsys.readouterr().out)
    check(document, "pk-doctor")
    rows: list[dict[str, str]] = document["findings"]
    return rows


def test_it_is_told_what_to_look_at(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--bootstrap-server", "h:1"]) == ExitStatus.USAGE
    assert 'Missing required argument "[security]"' in capsys.readouterr().err


def test_a_broker_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    address = f"127.0.0.1:{free_port()}"
    rows = findings(capsys, ExitStatus.UNREACHABLE, "--bootstrap-server", address)
    assert [row["verdict"] for row in rows] == ["failed"] + ["not reached"] * 5
    assert "nothing listens there" in rows[0]["hint"]


def test_every_broker_of_the_cluster_is_visited_by_its_own_address(
    capsys: pytest.CaptureFixture[str],
) -> None:
    gone = free_port()
    with FakeBroker({"t": 1}) as broker:
        broker.handlers[ApiKey.SASL_HANDSHAKE] = lambda _message, _version: SaslHandshakeResponse(
            error_code=34
        )
        brokers = [DescribeClusterBroker(broker_id=2, host="127.0.0.1", port=gone)]
        broker.handlers[ApiKey.DESCRIBE_CLUSTER] = lambda _message, _version: DescribeClusterResponse(
            cluster_id="c", brokers=brokers, cluster_authorized_operations=0b1_0001_0000_0000
        )
        words = ("--bootstrap-server", broker.bootstrap, "--topic", "t", "--topic", "missing")
        rows = findings(capsys, ExitStatus.AUTHENTICATION, *words)
    first = [
        (row["stage"], row["verdict"], row["detail"]) for row in rows if row["address"] == broker.bootstrap
    ]
    assert first == [
        ("TCP", "ok", "connected"),
        ("TLS", "not used", "the connection is not encrypted"),
        ("host name", "not used", "there is no certificate"),
        ("mechanism", "not used", "the listener asks for no login"),
        ("login", "not used", "the client does not log in"),
        ("rights", "ok", "cluster: DESCRIBE, IDEMPOTENT_WRITE"),
        ("rights", "ok", "topic t: the broker does not say"),
        ("rights", "failed", "topic missing: This server does not host this topic-partition."),
    ]
    second = [(row["stage"], row["verdict"]) for row in rows if row["address"] == f"127.0.0.1:{gone}"]
    assert second[0] == ("TCP", "failed")


def test_text_is_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    address = f"127.0.0.1:{free_port()}"
    assert (
        main.run(["--security", "--bootstrap-server", address, "--output", "text"]) == ExitStatus.UNREACHABLE
    )
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert said.err.startswith(f"pk-doctor: {address}: TCP: cannot connect to ")
    assert said.err.count("\n") == 1
    assert lines[0] == address
    assert lines[1].startswith("  TCP        failed      cannot connect to ")
    assert lines[2].startswith("                         (nothing listens there")
    assert lines[-1] == "  rights     not reached"
