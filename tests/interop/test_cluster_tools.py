"""pk-cluster and pk-features beside Kafka's tools, on both systems."""

import json

import pytest

from tests.interop.conftest import Everywhere, JavaTool, System
from tests.interop.side_by_side import pk

CLUSTER = "org.apache.kafka.tools.ClusterTool"
FEATURES = "org.apache.kafka.tools.FeatureCommand"


@pytest.mark.parametrize("flag", ["--bootstrap-server", "-b"])
@pytest.mark.parametrize("verb", ["cluster-id", "cluster", "c"])
def test_the_id_of_a_cluster(java_tool: JavaTool, system: System, verb: str, flag: str) -> None:
    words = (verb, flag, system.bootstrap)
    theirs = java_tool(CLUSTER, *words)
    assert theirs.returncode == 0, theirs
    assert pk("cluster", *words) == theirs.stdout
    assert theirs.stdout.startswith("Cluster ID: ")


def test_a_cluster_in_zookeeper_mode_unregisters_nobody(
    java_tool: JavaTool, system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("unregister", "-b", system.bootstrap, "--id", "0")
    theirs = java_tool(CLUSTER, *words)
    assert (theirs.returncode, pk("cluster", *words, code=1)) == (0, theirs.stdout)
    monkeypatch.setenv("PK_COMPAT", "3.9")
    assert pk("cluster", *words) == theirs.stdout


def test_endpoints_and_waiting(system: System) -> None:
    host, port = system.bootstrap.split(":")
    shown = pk("cluster", "list-endpoints", "-b", system.bootstrap, "--wait", "--brokers", 1).splitlines()
    assert shown[0].split() == ["ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE"]
    assert shown[1].split() == ["0", host, port, "null", "unfenced", "broker"]
    words = ("list-endpoints", "-b", system.bootstrap, "--output", "json", "--wait", "--brokers", 2)
    for patience in ("300ms", "5s", "50s"):  # in the first a busy machine may not answer at all
        refused = json.loads(pk("cluster", *words, "--timeout", patience, code=3))
        if not refused["error"]["message"].startswith("0 of 2"):
            break
    assert refused["error"]["message"] == "1 of 2 brokers are up"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("describe",), 0),
        (("desc",), 0),
        (("upgrade", "--metadata", "3.7-IV0"), 1),
        (("upgrade", "--metadata", "3.5", "--feature", "foo=1"), 1),
        (("upgrade", "--feature", "foo=1", "--dry-run"), 1),
        (("downgrade", "--feature", "foo=1"), 1),
        (("downgrade", "--unsafe", "--feature", "foo=1", "--feature", "bar=3"), 1),
        (("disable", "--feature", "foo"), 1),
        (("disable", "--unsafe", "--dry-run", "--feature", "foo", "--feature", "bar"), 1),
    ],
)
def test_features(java_tool: JavaTool, system: System, words: tuple[str, ...], code: int) -> None:
    given = ("--bootstrap-server", system.bootstrap, *words)
    theirs = java_tool(FEATURES, *given)
    assert theirs.returncode == code, theirs
    assert pk("features", *given, code=code) == theirs.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("upgrade",),
        ("disable",),
        ("upgrade", "--metadata", "9.9"),
        ("upgrade", "--feature", "foo"),
        ("upgrade", "--feature", "foo=x"),
        ("upgrade", "--feature", "foo=0"),
        ("downgrade", "--feature", "foo=99999"),
    ],
)
def test_wrong_use_of_features(
    java_tool: JavaTool,
    system: System,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
) -> None:
    given = ("--bootstrap-server", system.bootstrap, *words)
    theirs = java_tool(FEATURES, *given)
    assert (theirs.returncode, theirs.stdout) == (1, "")
    assert pk("features", *given, code=2) == ""
    monkeypatch.setenv("PK_COMPAT", "3.9")
    assert pk("features", *given, code=1) == ""


def test_kafkas_tools_see_the_same_everywhere(everywhere: Everywhere) -> None:
    assert everywhere.run(FEATURES, "describe") == ""
    everywhere.run(FEATURES, "upgrade", "--feature", "foo=1", code=1)
