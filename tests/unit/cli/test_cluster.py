"""pk-cluster and pk-features where a cluster in KRaft mode answers, and where nobody can."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pkafka.cli import cluster, features
from pkafka.cli.kit.kafka_command import CommandGroup
from pkafka.clients.errors import ConnectError
from pkafka.errors import ErrorCode
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.api_versions import (
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from pkafka.protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from pkafka.protocol.messages.unregister_broker import UnregisterBrokerResponse
from pkafka.protocol.messages.update_features import UpdatableFeatureResult, UpdateFeaturesResponse
from tests.fakes.broker import FakeBroker
from tests.json_schemas import check
from tests.sockets import free_port

QUORUM = {
    "supported_features": [
        SupportedFeatureKey(name="metadata.version", min_version=1, max_version=21),
        SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1),
    ],
    "finalized_features_epoch": 254,
    "finalized_features": [
        FinalizedFeatureKey(name="metadata.version", max_version_level=20, min_version_level=20),
        FinalizedFeatureKey(name="future.version", max_version_level=7, min_version_level=7),
    ],
}


def test_features_of_a_quorum_are_described_in_kafkas_words(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeBroker() as broker:
        broker.features = QUORUM
        assert features.main.run(["--bootstrap-server", broker.bootstrap, "describe"]) == 0
    line = (
        "Feature: {}\tSupportedMinVersion: {}\tSupportedMaxVersion: {}\tFinalizedVersionLevel: {}\tEpoch: 254"
    )
    assert capsys.readouterr().out.splitlines() == [
        line.format("future.version", 0, 0, 7),
        line.format("kraft.version", 0, 1, 0),
        line.format("metadata.version", "3.0-IV1", "3.9-IV0", "3.8-IV0"),
    ]


def test_what_was_changed_and_what_was_not(capsys: pytest.CaptureFixture[str]) -> None:
    refused = UpdatableFeatureResult(feature="foo", error_code=42, error_message="No.")
    with FakeBroker({}) as broker:
        broker.handlers[ApiKey.UPDATE_FEATURES] = lambda _message, _version: UpdateFeaturesResponse(
            results=[refused, UpdatableFeatureResult(feature="metadata.version")]
        )
        words = ["--bootstrap-server", broker.bootstrap, "upgrade", "--metadata", "3.9", "--feature", "foo=2"]
        assert features.main.run(words) == 1
        assert capsys.readouterr().out.splitlines() == [
            "Could not upgrade foo to 2. No.",
            "metadata.version was upgraded to 21.",
        ]
        refused.error_code = 0
        assert features.main.run([*words[:2], "disable", "--dry-run", "--feature", "foo"]) == 0
        assert capsys.readouterr().out == "foo can be disabled.\n"
        _, _, message = broker.requests[-1]
        assert (message.validate_only, message.feature_updates[0].upgrade_type) == (True, 2)  # type: ignore[attr-defined]


def test_a_broker_is_unregistered(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeBroker() as broker:
        broker.handlers[ApiKey.UNREGISTER_BROKER] = lambda message, _version: UnregisterBrokerResponse(
            error_code=0 if message.broker_id == 3 else ErrorCode.BROKER_ID_NOT_REGISTERED  # type: ignore[attr-defined]
        )
        assert cluster.main.run(["unregister", "-b", broker.bootstrap, "-i", "3"]) == 0
        assert capsys.readouterr().out == "Broker 3 is no longer registered.\n"
        assert cluster.main.run(["unregister", "-b", broker.bootstrap, "-i", "4"]) == 1


@pytest.mark.parametrize(
    ("command", "before", "verb"),
    [(cluster.main, [], "cluster-id"), (features.main, ["describe"], "")],
    ids=["pk-cluster", "pk-features"],
)
def test_a_profile_says_which_cluster_is_meant(
    command: CommandGroup,
    before: list[str],
    verb: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PK_BOOTSTRAP_SERVER", f"127.0.0.1:{free_port()}")
    with FakeBroker() as broker:
        (tmp_path / ".pkafka.toml").write_text(
            f'[profiles.here]\nbootstrap.servers = "{broker.bootstrap}"\nssl.key.password = "hush"\n'
        )
        broker.handlers[ApiKey.DESCRIBE_CLUSTER] = lambda _message, _version: DescribeClusterResponse(
            cluster_id="here"
        )
        words = [*([verb] if verb else []), "--profile", "here"]
        assert command.run([*words, *before]) == 0
        shown = [*words, "--show-config", "--output", "json", *before]
        capsys.readouterr()
        assert command.run(shown) == 0
        document = json.loads(capsys.readouterr().out)
        check(document, "show-config")
        rows = {row["key"]: row["value"] for row in document["settings"]}
        assert (rows["bootstrap.servers"], rows["ssl.key.password"]) == (broker.bootstrap, "[hidden]")


def test_json_of_a_quorum_is_what_is_promised(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeBroker({}) as broker:
        broker.features = QUORUM
        broker.handlers[ApiKey.UNREGISTER_BROKER] = lambda _message, _version: UnregisterBrokerResponse()
        broker.handlers[ApiKey.UPDATE_FEATURES] = lambda _message, _version: UpdateFeaturesResponse(
            results=[
                UpdatableFeatureResult(feature="foo", error_code=42, error_message="No."),
                UpdatableFeatureResult(feature="metadata.version"),
            ]
        )
        server = ["--bootstrap-server", broker.bootstrap]

        def document(name: str, run: Callable[[list[str]], int], *words: str, status: int = 0) -> Any:
            assert run([*words]) == status
            found = json.loads(capsys.readouterr().out)
            check(found, name)
            return found

        asked = [*server, "--output", "json"]
        assert len(document("pk-features.describe", features.main.run, *asked, "describe")["features"]) == 3
        update = [*asked, "upgrade", "--metadata", "3.9", "--feature", "foo=2"]
        rows = document("pk-features.upgrade", features.main.run, *update, status=1)["features"]
        message = {"code": 42, "name": "INVALID_REQUEST", "message": "No."}
        assert [(row["level"], row["error"]) for row in rows] == [(2, message), (21, None)]
        forgotten = document("pk-cluster.unregister", cluster.main.run, "unregister", *asked, "--id", "3")
        assert forgotten == {"brokers": [{"id": 3}]}


def test_waiting_ends_when_enough_brokers_are_up(capsys: pytest.CaptureFixture[str]) -> None:
    counts = iter((1, 2, 3))
    with FakeBroker() as broker:
        broker.handlers[ApiKey.DESCRIBE_CLUSTER] = lambda _message, _version: DescribeClusterResponse(
            cluster_id="here",
            brokers=[
                DescribeClusterBroker(broker_id=each, host="localhost", port=9092, rack="r" * each or None)
                for each in range(next(counts))
            ],
        )
        words = ["list-endpoints", "-b", broker.bootstrap, "--wait", "--brokers", "3"]
        assert cluster.main.run(words) == 0
        assert broker.count(ApiKey.DESCRIBE_CLUSTER) == 3
    assert capsys.readouterr().out.splitlines()[-1].split() == [
        *("2", "localhost", "9092", "rr", "unfenced", "broker")
    ]


def test_waiting_for_nobody_ends_too(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["cluster-id", "-b", f"127.0.0.1:{free_port()}", "--wait", "--timeout", "100ms"]
    assert cluster.main.run(words) == 3
    assert "0 of 1 brokers are up" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["cluster-id"], "bootstrap-server"),
        (["cluster-id", "-C", "x:1"], "a cluster in ZooKeeper mode has none"),
        (["cluster-id", "-C", "x:1", "-b", "x:1"], "not allowed with"),
        (["unregister", "-b", "x:1"], "--id"),
        (["x"], "No such command"),
    ],
)
def test_wrong_use(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    assert cluster.main.run(words) == 2
    shown = capsys.readouterr()
    assert (shown.out, said in shown.err) == ("", True), shown.err


def test_an_error_is_json_where_the_flag_stands_before_the_verb(capsys: pytest.CaptureFixture[str]) -> None:
    server = ["--bootstrap-server", f"127.0.0.1:{free_port()}"]
    assert features.main.run([*server, "--output", "json", "describe"]) == 3
    assert json.loads(capsys.readouterr().out)["error"]["name"] == "Connect"
    with pytest.raises(ConnectError):
        features.main.run([*server, "--debug", "describe"])


def test_controllers_have_no_features_here(capsys: pytest.CaptureFixture[str]) -> None:
    assert features.main.run(["--bootstrap-controller", "x:1", "describe"]) == 2
    assert "a cluster in ZooKeeper mode has none" in capsys.readouterr().err
